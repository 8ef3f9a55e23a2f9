"""Colours: Okabe and Ito's qualitative palette for series, and a vermilion to blue scale for signed values.

Okabe and Ito chose eight colours that people with every common form of colour blindness can tell apart; their yellow
is left out, because it vanishes on white. On a dark page the same hues are lighter. The diverging scale runs from the
palette's vermilion (below: lost, disturbed) through the page's own background to its blue (above: gained), a pair that
stays apart in all forms of colour blindness; it is interpolated in Oklab, where equal steps look equal. Series differ
in marker and dash as well, so that colour is never the only sign.

References:
    Okabe and Ito, *Color universal design*, 2008. Ottosson, *A perceptual color space for image processing*, 2020.
"""

from __future__ import annotations

from typing import TypeAlias

Colour: TypeAlias = tuple[float, float, float]

NUM_SERIES = 7
NUM_LEVELS = 21  # odd, so that one level is exactly the centre

SERIES_LIGHT = ("#0072b2", "#d55e00", "#00866a", "#b0538a", "#b87a00", "#3a94cc", "#59626e")
SERIES_DARK = ("#5db2ee", "#ff8f4d", "#3cc9a0", "#e79cc6", "#f0b93f", "#9ad4f8", "#a4adb8")

_DIVERGING_LIGHT = ("#b94a00", "#f3f2ef", "#0a5c99")
_DIVERGING_DARK = ("#ff9152", "#262b32", "#63b7f2")


def diverging(*, dark: bool) -> list[str]:
    """The colours of the signed scale from lowest to highest, ``NUM_LEVELS`` of them.

    >>> colours = diverging(dark=False)
    >>> len(colours), colours[10]
    (21, '#f3f2ef')
    """
    low, centre, high = (_to_oklab(colour) for colour in (_DIVERGING_DARK if dark else _DIVERGING_LIGHT))
    half = NUM_LEVELS // 2
    below = [_mix(low, centre, index / half) for index in range(half)]
    above = [_mix(centre, high, index / half) for index in range(half + 1)]
    return [_to_hex(colour) for colour in below + above]


def level_of(fraction: float) -> int:
    """The level of a place on the scale, -1 (lowest) to 1 (highest); beyond the ends it stays at the ends.

    >>> level_of(-1), level_of(0), level_of(0.02), level_of(5)
    (0, 10, 10, 20)
    """
    half = NUM_LEVELS // 2
    return half + max(-half, min(half, round(fraction * half)))


def style_variables(*, dark: bool) -> str:
    """The palette as CSS custom properties, for the page's style sheet."""
    series = SERIES_DARK if dark else SERIES_LIGHT
    named = [f"--series-{index}:{colour}" for index, colour in enumerate(series)]
    named += [f"--level-{index}:{colour}" for index, colour in enumerate(diverging(dark=dark))]
    return ";".join(named)


def style_classes() -> str:
    """The CSS classes that give a series or a level its colour."""
    series = [f".s{index}{{--ink:var(--series-{index})}}" for index in range(NUM_SERIES)]
    return "\n".join(series + [f".l{index}{{fill:var(--level-{index})}}" for index in range(NUM_LEVELS)])


def _mix(first: Colour, second: Colour, share: float) -> Colour:
    lightness, green_red, blue_yellow = (a + (b - a) * share for a, b in zip(first, second, strict=True))
    return lightness, green_red, blue_yellow


def _to_oklab(colour: str) -> Colour:
    red, green, blue = (_to_linear(int(colour[start : start + 2], 16) / 255) for start in (1, 3, 5))
    long = (0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue) ** (1 / 3)
    medium = (0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue) ** (1 / 3)
    short = (0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue) ** (1 / 3)
    return (
        0.2104542553 * long + 0.7936177850 * medium - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * medium + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * medium - 0.8086757660 * short,
    )


def _to_hex(colour: Colour) -> str:
    lightness, green_red, blue_yellow = colour
    long = (lightness + 0.3963377774 * green_red + 0.2158037573 * blue_yellow) ** 3
    medium = (lightness - 0.1055613458 * green_red - 0.0638541728 * blue_yellow) ** 3
    short = (lightness - 0.0894841775 * green_red - 1.2914855480 * blue_yellow) ** 3
    channels = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
    return "#" + "".join(f"{round(255 * _from_linear(channel)):02x}" for channel in channels)


def _to_linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4


def _from_linear(channel: float) -> float:
    channel = min(1.0, max(0.0, channel))
    return 12.92 * channel if channel <= 0.0031308 else 1.055 * channel ** (1 / 2.4) - 0.055
