"""Random tensors of the pipeline: their distribution, and NumPy's formulas on them."""

import functools

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from sevnet_jax.data import noise, pipeline  # noqa: E402


class Recorder(noise.NumpyDraw):
    """Draws with NumPy and keeps what it drew."""

    def __init__(self):
        super().__init__(0)
        self.drawn = []
        for kind in ("normal", "laplace", "uniform", "poisson"):
            setattr(self, kind, functools.partial(self._record, getattr(self, kind)))

    def _record(self, draw, *arguments):
        self.drawn.append(np.asarray(draw(*arguments)))
        return self.drawn[-1]


class Replay:
    """Hands out again what was drawn, now as tensors."""

    def __init__(self, drawn):
        self.normal = self.laplace = self.uniform = self.poisson = self._next
        self.sqrt = tf.sqrt
        self._drawn = iter(drawn)

    def _next(self, *_):
        return next(self._drawn)


@pytest.mark.parametrize(
    "name", [*noise.PAPER_COLUMNS, "gaussian:5-20", "shared:20", "shared:5-50"]
)
def test_numpy_and_tensorflow_agree_exactly_given_the_same_draws(name):
    clean = np.random.RandomState(1).uniform(size=(64, 48, 3)).astype(np.float32)
    law, recorder = noise.parse(name), Recorder()
    expected = law(clean, recorder)
    inputs = tf.constant(clean), tuple(map(tf.constant, recorder.drawn))
    eager = law(inputs[0], Replay(inputs[1]))
    np.testing.assert_array_equal(eager.numpy(), expected)

    dataset = tf.data.Dataset.from_tensors(inputs).map(
        lambda clean, drawn: law(clean, Replay(drawn))
    )
    (graph,) = dataset.as_numpy_iterator()
    np.testing.assert_array_equal(graph, expected)


def tensorflow_draw(row=0):
    return pipeline.TensorFlowDraw(7, tf.constant(3), tf.constant(row))


def in_dataset(function):
    """The value of `function` computed in a tf.data graph."""
    dataset = tf.data.Dataset.range(1).map(lambda _: function())
    return next(dataset.as_numpy_iterator())


DRAWS = {
    "normal": lambda draw: draw.normal((999, 401)),
    "laplace": lambda draw: draw.laplace((1000, 400)),
    "uniform": lambda draw: draw.uniform((1000, 400), -1.0, 3.0),
    "poisson": lambda draw: draw.poisson(tf.fill((1000, 400), 9.0)),
}


@pytest.mark.parametrize("kind", DRAWS)
def test_draws_are_the_same_eagerly_and_in_a_dataset(kind):
    eager = DRAWS[kind](tensorflow_draw()).numpy()
    graph = in_dataset(lambda: DRAWS[kind](tensorflow_draw()))
    np.testing.assert_allclose(graph, eager, rtol=1e-6, atol=1e-6)
    assert not np.array_equal(DRAWS[kind](tensorflow_draw(row=1)).numpy(), eager)
    draw = tensorflow_draw()
    assert not np.array_equal(DRAWS[kind](draw).numpy(), DRAWS[kind](draw).numpy())


# mean, variance, fourth central moment over squared variance
MOMENTS = {
    "normal": (0, 1, 3),
    "laplace": (0, 2, 6),
    "uniform": (1, 16 / 12, 1.8),
    "poisson": (9, 9, 3 + 1 / 9),
}


@pytest.mark.parametrize("kind", MOMENTS)
def test_draws_have_the_moments_of_their_distribution(kind):
    values = DRAWS[kind](tensorflow_draw()).numpy().astype(np.float64).ravel()
    mean, variance, kurtosis = MOMENTS[kind]
    assert values.mean() == pytest.approx(mean, abs=4 * (variance / values.size) ** 0.5)
    assert values.var() == pytest.approx(variance, rel=0.03)
    fourth = np.mean((values - mean) ** 4) / variance**2
    assert fourth == pytest.approx(kurtosis, rel=0.06)
    neighbours = np.corrcoef(values[1:], values[:-1])[0, 1]
    half = (len(values) + 1) // 2  # Box-Muller makes the two halves in pairs
    halves = np.corrcoef(values[: len(values) - half], values[half:])[0, 1]
    assert max(abs(neighbours), abs(halves)) < 0.02


def test_normal_draws_pass_a_test_of_their_distribution():
    from scipy import stats

    values = tensorflow_draw().normal((300, 300, 3)).numpy().ravel()
    assert stats.kstest(values, "norm").pvalue > 0.01


def test_no_normal_number_is_an_atom_at_zero():
    """Angles on the axes would make one number in 2048 a zero."""
    numbers = pipeline.TensorFlowDraw(0, tf.constant(0), tf.constant(0)).normal(
        (2**18,)
    )
    assert np.sum(np.abs(numbers.numpy()) < 1e-6) <= 4


@pytest.mark.parametrize("rate", [0.0, 0.5, 200.0])
def test_poisson_draws_have_their_rate_as_mean_and_variance(rate):
    draw = pipeline.TensorFlowDraw(0, tf.constant(0), tf.constant(0))
    counts = draw.poisson(tf.fill((2**16,), rate)).numpy()
    assert counts.mean() == pytest.approx(rate, rel=0.02)
    assert counts.var() == pytest.approx(rate, rel=0.03)
