"""The twelve networks of the paper's comparison, one file each.

To add one, write `NAME.py` and import it below. A file holds:

- A `Network` with dataclass fields: `channels: int = 3`, then hyper-parameters, whose
  defaults are those of the paper's complexity table; `multiple`, `reach` (None where
  attention or pooling sees the whole image), `keeps_the_law = False`. `__call__` starts
  with `self.check_input(x)`, pads by the original's rule (`ops.pad_to_multiple`
  reflects, `common.pad_zeros` does not), crops back, and takes images of any size.
- Modules whose names make official keys: a parameter's path joined by dots is its key.
  Names may contain dots, `name="encoder_level1.0"`. If the original has a module with
  one output, write one here too: tests then find its activations. A shared module is
  made once and called twice. Leaves:

  ========  ========================================================================
  kernel    official weight, convolution [h, w, in, out] or linear map [in, out]
  scale     official weight of a norm
  bias      official bias
  others    by official name and layout, `weight` too (transposed convolutions)
  ========  ========================================================================

  Axes of length 1 do not matter: vectors are kept flat, [C] for (1, C, 1, 1), and a
  1x1 convolution may be a `Dense`.
- `official.declare(NAME, cls, fields=..., same=..., fixed=..., unused=...,
  ignored=..., prefixes=...)`: how official hyper-parameters map to our fields, and
  which official keys (buffers, tensors never used) are dropped.
- `register(NAME, cls, family="rival")`, presets of official denoising configs
  (`NAME_gaussian`, `NAME_sidd`), and `NAME_xs` of about 62 thousand MACs per pixel.

Compute in the type of `x`; statistics and softmax in float32 (`tokens.widen`,
`attention.multiply_wide`). Types and ranks are never promoted implicitly: to combine a
vector with an image, use `common.spread`. Take GELU from `common.gelu`. Values that
depend only on static shapes (indices, labels) are NumPy arrays, made when traced; large
tables, such as masks, are computed inside the program. Stochastic depth and drop-out
are left out.
"""

from sevnet_jax.models.rivals import (
    akdt,
    cgnet,
    crwkv,
    esc,
    grl,
    mhnet,
    nafnet,
    restormer,
    sadnet,
    swinir,
    uformer,
    xformer,
)

__all__ = [
    "akdt",
    "cgnet",
    "crwkv",
    "esc",
    "grl",
    "mhnet",
    "nafnet",
    "restormer",
    "sadnet",
    "swinir",
    "uformer",
    "xformer",
]
