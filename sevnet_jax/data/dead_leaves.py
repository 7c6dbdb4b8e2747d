"""Drawn training images ("dead leaves"): overlapping shapes, as in photos of the world.

Radii follow the power law r^-3, so the images look alike at every scale, as photos do.
Shapes are drawn on a finer grid and averaged, so an edge is about a pixel wide, as in a
photo that was reduced in size.
"""

import numpy as np

SUPERSAMPLING = 2
MIN_RADIUS = (2.0, 16.0)  # pixels of the final image, drawn once an image
BLOCK = 256  # leaves drawn at a time
COVERED_ENOUGH = 0.998  # the rest shows the ground
DISC_SHARE = 0.4
CORNERS = (3, 4, 4, 5, 6)  # of the polygons; four is twice as likely
TEXTURE_EXPONENTS = (0.6, 1.2, 2.0)  # of amplitude over frequency, rough to smooth


def _radii(random, smallest: float, side: int, count: int) -> np.ndarray:
    """Draws from r^-3, times the area in which a leaf of radius r is in sight."""
    edges = np.geomspace(smallest, max(side, 2 * smallest), 513)
    middle = np.sqrt(edges[1:] * edges[:-1])
    weight = middle**-3 * (side + 2 * middle) ** 2 * np.diff(edges)
    share = np.concatenate([[0], np.cumsum(weight) / weight.sum()])
    return np.interp(random.uniform(size=count), share, edges)


def _normals(random: np.random.RandomState, corners: int) -> np.ndarray:
    """The outward normals [corners, 2] of a convex shape, scaled to its distances."""
    turn = np.arange(corners) + random.uniform(-0.25, 0.25, corners)
    angle = 2 * np.pi * (random.uniform() + turn / corners)
    distance = random.uniform(0.4, 1.0, corners)
    if corners == 4:  # a rectangle
        angle = angle[0] + np.pi / 2 * np.arange(4)
        distance = distance[[0, 1, 0, 1]]
    return np.stack([np.sin(angle), np.cos(angle)], -1) / distance[:, None]


def _labels(random: np.random.RandomState, side: int) -> tuple[np.ndarray, int]:
    """Returns which leaf is seen at each place [side, side], and how many there are.

    From front to back: a leaf fills only what is still open, so work ends early.
    """
    label = np.zeros((side, side), np.int32)  # 0 is the ground
    axis = np.arange(side, dtype=np.float32) + 0.5
    count, hidden = 0, 0.0
    smallest = SUPERSAMPLING * np.exp(random.uniform(*np.log(MIN_RADIUS)))
    while hidden < COVERED_ENOUGH:
        radius = _radii(random, smallest, side, BLOCK)
        centre = (
            random.uniform(-1, 1, (BLOCK, 2)) * (side / 2 + radius[:, None]) + side / 2
        )
        is_disc = random.uniform(size=BLOCK) < DISC_SHARE
        corners = random.choice(CORNERS, BLOCK)
        low = np.maximum(np.floor(centre - radius[:, None]), 0).astype(int)
        high = np.minimum(np.ceil(centre + radius[:, None]), side).astype(int)
        for i in range(BLOCK):
            count += 1
            box = np.s_[low[i, 0] : high[i, 0], low[i, 1] : high[i, 1]]
            open_here = label[box] == 0
            if not open_here.any():
                continue
            y = (axis[box[0], None] - np.float32(centre[i, 0])) / np.float32(radius[i])
            x = (axis[None, box[1]] - np.float32(centre[i, 1])) / np.float32(radius[i])
            inside = y * y + x * x <= 1
            if not is_disc[i]:
                for ny, nx in _normals(random, corners[i]).astype(np.float32):
                    inside &= ny * y + nx * x <= 1
            label[box][inside & open_here] = count
        hidden = np.count_nonzero(label) / label.size
    return label, count + 1


def _texture(random: np.random.RandomState, side: int) -> np.ndarray:
    """Periodic noise [side, side] of a random smoothness, mean 0 and variance 1."""
    fy, fx = np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None]
    frequency = np.hypot(fy, fx)
    frequency[0, 0] = np.inf
    white = np.fft.rfft2(random.standard_normal((side, side)).astype(np.float32))
    exponent = random.choice(TEXTURE_EXPONENTS)
    field = np.fft.irfft2(white * frequency**-exponent, (side, side))
    return (field / field.std()).astype(np.float32)


def _colours(random: np.random.RandomState, count: int) -> np.ndarray:
    """Colours [count, 3] as in photographs: brightness varies more than hue."""
    exposure, contrast = random.uniform(0.5, 2.0), random.uniform(0.3, 0.9)
    brightness = random.uniform(size=(count, 1)) ** exposure
    brightness = 0.5 + contrast * (brightness - 0.5)
    tint = 0.06 * random.standard_normal(3)
    saturation = random.uniform(0.02, 0.16)
    return brightness + (tint + saturation * random.standard_normal((count, 3)))


def render(size: int, seed: int | tuple[int, ...]) -> np.ndarray:
    """Returns one image [size, size, 3], uint8, a function of `seed` alone."""
    random = np.random.RandomState(np.atleast_1d(np.asarray(seed, np.uint32)))
    side = size * SUPERSAMPLING
    label, count = _labels(random, side)
    y, x = np.mgrid[:side, :side].astype(np.float32) / side

    def per_leaf(values: np.ndarray) -> np.ndarray:
        return values.astype(np.float32)[label]

    def rarely(share: float, strength: float) -> np.ndarray:
        """An amplitude a leaf: 0 for most, up to `strength` for a `share` of them."""
        chosen = random.uniform(size=count) < share
        return chosen * strength * random.uniform(size=count) ** 2

    # Shading: a gradient; a grating; rough or smooth noise, moved for each leaf.
    slope = rarely(0.6, 1.0)[:, None] * random.standard_normal((count, 2))
    shade = per_leaf(slope[:, 0]) * (y - 0.5) + per_leaf(slope[:, 1]) * (x - 0.5)
    cycles = np.exp(random.uniform(np.log(4), np.log(size / 4), count))
    angle, phase = random.uniform(0, 2 * np.pi, (2, count))
    wave = per_leaf(cycles * np.sin(angle)) * y + per_leaf(cycles * np.cos(angle)) * x
    stripes = per_leaf(rarely(0.15, 0.4))
    shade += stripes * np.sin(2 * np.pi * wave + per_leaf(phase))
    move = random.randint(0, side * side, count)
    place = (np.arange(side * side).reshape(side, side) + move[label]) % (side * side)
    shade += per_leaf(rarely(0.7, 0.25)) * _texture(random, side).ravel()[place]

    image = per_leaf(_colours(random, count)) + shade[..., None]
    image = image.reshape(size, SUPERSAMPLING, size, SUPERSAMPLING, 3).mean((1, 3))
    return np.round(np.clip(image, 0, 1) * 255).astype(np.uint8)
