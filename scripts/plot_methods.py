"""Draws the figures of docs/methods.md: the coefficient of each method as a function of mu and pi.

    PYTHONPATH=build/python python scripts/plot_methods.py [FOLDER]     (default: docs/methods)

Every number comes from keel.token_coefficients. SVG is written by hand, with its own colours for light and dark pages;
the same module gives the same bytes.
"""

import math
import os
import sys

import torch

import keel

FONT = "system-ui,-apple-system,Segoe UI,Roboto,Helvetica,Arial,sans-serif"
CELLS = 80  # heat map cells along each side
LEVELS = 12  # shades of either colour
SHOWN = 5.0  # |coefficient / A| of the darkest colour

STYLE = """
.page{fill:#ffffff}.frame{fill:none;stroke:#57606a;stroke-width:1}.back{fill:#ffffff}
text{fill:#1f2328}.soft{fill:#57606a}.grid{stroke:#d0d7de;stroke-width:1}.same{stroke:#57606a;stroke-width:1;stroke-dasharray:3 3}
.blocked{fill:url(#hatch)}.hatch{fill:#d8dce1}.stripe{stroke:#9aa2ab;stroke-width:1.4}.edge{fill:none;stroke:#1f2328;stroke-width:1.6}
.halo{fill:#1f2328;stroke:#ffffff;stroke-width:3;paint-order:stroke;stroke-linejoin:round}
"""
DARK_STYLE = """
.page{fill:#0d1117}.frame{stroke:#8b949e}.back{fill:#0d1117}
text{fill:#e6edf3}.soft{fill:#9da7b3}.grid{stroke:#30363d}.same{stroke:#9da7b3}
.hatch{fill:#2b3139}.stripe{stroke:#596370}.edge{stroke:#e6edf3}
.halo{fill:#e6edf3;stroke:#0d1117}
"""


def decide(method, params, mu, pi, sign):
    """The decisions about tokens with these probabilities and advantage +1 or -1."""
    mu, pi = torch.broadcast_tensors(mu, pi)
    shape, mu, pi = mu.shape, mu.reshape(-1), pi.reshape(-1)
    decision = keel.token_coefficients(method, params, logp=pi.log(), behavior_logp=mu.log(),
                                       advantages=torch.full_like(mu, sign), lengths=torch.ones(mu.numel(), dtype=torch.int64))
    return decision.coefficient.reshape(shape), decision.keep.reshape(shape)


def number(value):
    """One decimal. The small shift makes the rounding of ties deterministic."""
    text = f"{value + 1e-6:.1f}"
    return text[:-2] if text.endswith(".0") else text


# Colours: blue raises the token's probability, red lowers it, and the background means no change.


def mixed(low, high, share):
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(low, high))


def ramp(stops, share):
    place = share * (len(stops) - 1)
    i = min(int(place), len(stops) - 2)
    return mixed(stops[i], stops[i + 1], place - i)


PALETTES = {
    "light": ([(255, 255, 255), (158, 202, 240), (38, 118, 199), (8, 48, 107)],
              [(255, 255, 255), (250, 187, 161), (214, 72, 48), (103, 0, 13)]),
    "dark": ([(13, 17, 23), (18, 66, 122), (47, 129, 220), (173, 216, 255)],
             [(13, 17, 23), (112, 33, 24), (222, 88, 62), (255, 205, 184)]),
}


def level_of(value):
    return torch.round(torch.asinh(2 * value) / math.asinh(2 * SHOWN) * LEVELS).clamp(-LEVELS, LEVELS).to(torch.int64)


def shade(level):
    return f"u{level}" if level >= 0 else f"d{-level}"


def shades(palette):
    up, down = PALETTES[palette]
    return "".join(f".u{i}{{fill:{ramp(up, i / LEVELS)}}}" for i in range(LEVELS + 1)) + "".join(
        f".d{i}{{fill:{ramp(down, i / LEVELS)}}}" for i in range(1, LEVELS + 1))


def heat(method, params, sign):
    """The coefficient over |A| as paths, one per shade, in units of cells; without blocked cells."""
    # Shifted from the centres of the cells, some of which are exactly on a boundary.
    mu = (torch.arange(CELLS, dtype=torch.float64) + 0.503) / CELLS
    pi = (torch.arange(CELLS, dtype=torch.float64) + 0.498) / CELLS
    coefficient, keep = decide(method, params, mu.unsqueeze(0), pi.unsqueeze(1), sign)
    levels = level_of(coefficient).masked_fill(keep.logical_not(), LEVELS + 1).tolist()
    runs = {}
    for row, cells in enumerate(levels):
        begin = 0
        for i in range(1, CELLS + 1):
            if i == CELLS or cells[i] != cells[begin]:
                if cells[begin] <= LEVELS:
                    # Extends one cell into the blocked area; the exact boundary is drawn over it.
                    left = begin - (begin > 0 and cells[begin - 1] > LEVELS)
                    right = i + (i < CELLS and cells[i] > LEVELS)
                    runs.setdefault(cells[begin], []).append(f"M{left} {CELLS - 1 - row}h{right - left}v1h-{right - left}z")
                begin = i
    return "".join(f'<path class="{shade(level)}" d="{"".join(runs[level])}"/>' for level in sorted(runs))


def crossing(inside, mu, start, end, steps=60):
    """For each mu, the pi between start (where `inside` holds) and end (where it does not) at which it stops holding."""
    for _ in range(steps):
        middle = (start + end) / 2
        holds = inside(mu, middle)
        start, end = torch.where(holds, middle, start), torch.where(holds, end, middle)
    return (start + end) / 2


def boundary(method, params, sign, what):
    """pi on the boundary for every mu that has one: of what is kept, or of where the coefficient changes its sign."""
    tiny = 1e-9
    mu = torch.linspace(0, 1, 161, dtype=torch.float64).clamp(tiny, 1 - tiny)

    def inside(mu, pi):
        coefficient, keep = decide(method, params, mu, pi, sign)
        return keep if what == "kept" else coefficient * sign > 0

    far = torch.full_like(mu, 1 - tiny if sign > 0 else tiny)
    leaves = inside(mu, mu) & ~inside(mu, far)
    mu, far = mu[leaves], far[leaves]
    return mu, crossing(inside, mu, mu.clone(), far)


def panel(x, y, size, method, params, sign, notes):
    """One heat map with its boundary. `notes` are (mu, pi, text)."""
    def place(mu, pi):
        return f"{number(mu * size)} {number((1 - pi) * size)}"

    parts = [f'<g transform="translate({x} {y})"><rect class="back" width="{size}" height="{size}"/>',
             f'<g transform="scale({size / CELLS:g})" shape-rendering="crispEdges">{heat(method, params, sign)}</g>']
    for what in ("kept", "positive"):
        mu, pi = boundary(method, params, sign, what)
        if mu.numel() < 2:
            continue
        points = [place(m, p) for m, p in zip(mu.tolist(), pi.tolist())]
        if what == "kept":
            edge = 1 if sign > 0 else 0
            corners = [place(mu[-1].item(), edge), place(mu[0].item(), edge)]
            parts.append(f'<path class="blocked" d="M{"L".join(points + corners)}z"/>')
        parts.append(f'<path class="edge" d="M{"L".join(points)}"/>')
        if what == "kept":
            break
    parts.append(f'<path class="same" d="M0 {size}L{size} 0"/><rect class="frame" width="{size}" height="{size}"/>')
    for mu, pi, text in notes:
        parts.append(f'<text class="halo" x="{number(mu * size)}" y="{number((1 - pi) * size)}" text-anchor="middle" '
                     f'font-size="12">{text}</text>')
    return "".join(parts) + "</g>"


def axes(x, y, size, left, bottom):
    """Ticks at 0, 0.5 and 1, and optionally the labels mu and pi."""
    parts = []
    for tick in (0, 0.5, 1):
        label = f"{tick:g}"
        if bottom:
            parts.append(f'<text class="soft" x="{number(x + tick * size)}" y="{y + size + 15}" text-anchor="middle">{label}</text>')
        if left:
            parts.append(f'<text class="soft" x="{x - 7}" y="{number(y + (1 - tick) * size + 4)}" text-anchor="end">{label}</text>')
    if bottom:
        parts.append(f'<text x="{number(x + size / 2)}" y="{y + size + 31}" text-anchor="middle">mu, when sampled</text>')
    if left:
        middle = number(y + size / 2)
        parts.append(f'<text x="{x - 30}" y="{middle}" text-anchor="middle" transform="rotate(-90 {x - 30} {middle})">pi, now</text>')
    return "".join(parts)


def colour_bar(x, y, width):
    """The colour scale of the heat maps, and the legend."""
    count = 2 * LEVELS + 1
    step = width / count
    parts = [f'<rect class="{shade(i - LEVELS)}" x="{number(x + i * step)}" y="{y}" width="{number(step + 0.4)}" height="12"/>'
             for i in range(count)]
    parts.append(f'<rect class="frame" x="{x}" y="{y}" width="{width}" height="12"/>')
    for value in (-5, -2, -1, -0.3, 0, 0.3, 1, 2, 5):
        place = x + width / 2 + math.asinh(2 * value) / math.asinh(2 * SHOWN) * (LEVELS / count) * width
        end = {-5: " or less", 5: " or more"}.get(value, "")
        anchor = {-5: "end", 5: "start"}.get(value, "middle")
        shift = {-5: 8, 5: -4}.get(value, 0)
        label = f"{value:g}".replace("-", "−")
        parts.append(f'<text class="soft" x="{number(place + shift)}" y="{y + 27}" text-anchor="{anchor}">{label}{end}</text>')
    middle = number(x + width / 2)
    parts.append(f'<text x="{middle}" y="{y - 8}" text-anchor="middle">coefficient / |A|: <tspan class="ured">lowers</tspan> '
                 f'or <tspan class="ublue">raises</tspan> the token\'s probability</text>')
    return "".join(parts)


def document(width, height, title, body, extra="", dark_extra=""):
    style = STYLE + shades("light") + ".ured{fill:#b62324}.ublue{fill:#0a58b5}" + extra
    dark = DARK_STYLE + shades("dark") + ".ured{fill:#ff8d78}.ublue{fill:#79b8ff}" + dark_extra
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
            f'aria-label="{title}" font-family="{FONT}" font-size="12"><title>{title}</title><style>{style}'
            f'@media (prefers-color-scheme:dark){{{dark}}}</style><defs><pattern id="hatch" width="7" height="7" '
            f'patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="hatch" width="7" height="7"/>'
            f'<path class="stripe" d="M0 0V7"/></pattern></defs><rect class="page" width="{width}" height="{height}" rx="8"/>'
            f'{body}</svg>\n')


def regions(title, columns):
    """Heat maps side by side, A > 0 above A < 0. A column: heading, subheading, method, parameters, notes up, notes down."""
    size, gap, left, top, between = 200, 26, 92, 66, 44
    width, height = left + len(columns) * (size + gap), top + 2 * size + between + 112
    body = []
    for row, sign in enumerate((1.0, -1.0)):
        y = top + row * (size + between)
        middle = number(y + size / 2)
        body.append(f'<text x="24" y="{middle}" text-anchor="middle" font-size="13" font-weight="600" '
                    f'transform="rotate(-90 24 {middle})">{"A &gt; 0: pi should rise" if row == 0 else "A &lt; 0: pi should fall"}</text>')
        for i, (heading, subheading, method, params, *notes) in enumerate(columns):
            x = left + i * (size + gap)
            if row == 0:
                body.append(f'<text x="{x + size // 2}" y="30" text-anchor="middle" font-size="15" font-weight="600">{heading}</text>'
                            f'<text class="soft" x="{x + size // 2}" y="50" text-anchor="middle">{subheading}</text>')
            body.append(panel(x, y, size, method, params, sign, notes[row]))
            body.append(axes(x, y, size, i == 0, row == 1))
    y = height - 40
    body.append(colour_bar(left + 60, y, 380))
    x = left + 570
    body.append(f'<rect class="blocked" x="{x}" y="{y - 18}" width="26" height="14"/><text x="{x + 34}" y="{y - 7}">blocked: the coefficient is 0</text>'
                f'<path class="edge" d="M{x} {y + 7}h26"/><text x="{x + 34}" y="{y + 11}">where it becomes 0</text>'
                f'<path class="same" d="M{x + 170} {y + 7}h26"/><text x="{x + 204}" y="{y + 11}">pi = mu</text>')
    return document(width, height, title, "".join(body))


LINES = [  # name, method, parameters, light colour, dark colour, dashes, shift that separates equal lines
    ("PPO clip, 0.2", "ppo", {}, "#8c5a00", "#e3b341", "", 0.0),
    ("DPPO Binary-TV, 0.15", "dppo_tv", {}, "#0a58b5", "#79b8ff", "", 2.5),
    ("DPPO Binary-KL, 0.05", "dppo_kl", {}, "#6f3fc4", "#c9a5ff", "7 3", -2.5),
    ("DRPO, 0.5", "drpo", {}, "#b62324", "#ff8d78", "", 0.0),
    ("SPO, 0.2", "spo", {}, "#1a7f37", "#56d364", "2 3", 0.0),
]


def polyline(points):
    """Removes points on the line between their neighbours."""
    kept = [points[0]]
    for i in range(1, len(points) - 1):
        (x0, y0), (x1, y1), (x2, y2) = kept[-1], points[i], points[i + 1]
        if abs((y1 - y0) * (x2 - x0) - (y2 - y0) * (x1 - x0)) > 0.05 * abs(x2 - x0):
            kept.append(points[i])
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in kept + [points[-1]])


def weights():
    """The weight on r A as a function of pi, for a rare, a medium and a likely token."""
    columns = [(0.01, 0.0, 0.6, "mu = 0.01: a rare token"), (0.5, 0.0, 1.0, "mu = 0.5"), (0.99, 0.4, 1.0, "mu = 0.99: a near-certain token")]
    low, high, wide, tall, gap, left, top, between = -0.5, 2.5, 270, 170, 34, 92, 44, 40
    width, height = left + 3 * (wide + gap) - 6, top + 2 * tall + between + 88
    body = [f'<clipPath id="plot"><rect width="{wide}" height="{tall}"/></clipPath>']
    for row, sign in enumerate((1.0, -1.0)):
        y = top + row * (tall + between)
        middle = number(y + tall / 2)
        body.append(f'<text x="24" y="{middle}" text-anchor="middle" font-size="13" font-weight="600" '
                    f'transform="rotate(-90 24 {middle})">{"A &gt; 0" if row == 0 else "A &lt; 0"}</text>'
                    f'<text x="58" y="{middle}" text-anchor="middle" transform="rotate(-90 58 {middle})">weight g / (r A)</text>')
        for i, (mu, begin, end, heading) in enumerate(columns):
            x = left + i * (wide + gap)
            body.append(f'<g transform="translate({x} {y})">' + curves(mu, begin, end, sign, wide, tall, low, high))
            for value in (0, 1, 2):
                if i == 0:
                    body.append(f'<text class="soft" x="-7" y="{number((high - value) / (high - low) * tall + 4)}" text-anchor="end">{value}</text>')
            for tick in range(round(begin * 10), round(end * 10) + 1, 2):
                place = (tick / 10 - begin) / (end - begin) * wide
                body.append(f'<text class="soft" x="{number(place)}" y="{tall + 15}" text-anchor="middle">{tick / 10:g}</text>')
            if row == 0:
                body.append(f'<text x="{wide // 2}" y="-14" text-anchor="middle" font-size="14" font-weight="600">{heading}</text>')
            else:
                body.append(f'<text x="{wide // 2}" y="{tall + 32}" text-anchor="middle">pi, now</text>')
            body.append("</g>")
    x = left
    for i, (name, *_rest) in enumerate(LINES):
        body.append(f'<path class="line l{i}" d="M{x} {height - 20}h26"/><text x="{x + 33}" y="{height - 16}">{name}</text>')
        x += 60 + 7 * len(name)
    body.append(f'<path class="same" d="M{x} {height - 20}h26"/><text x="{x + 33}" y="{height - 16}">pi = mu</text>')
    styles = [".line{fill:none;stroke-width:2}", ""]
    for i, (_name, _method, _params, light, dark, dashes, _shift) in enumerate(LINES):
        styles[0] += f".l{i}{{stroke:{light}{';stroke-dasharray:' + dashes if dashes else ''}}}"
        styles[1] += f".l{i}{{stroke:{dark}}}"
    return document(width, height, "Weight of PPO, DPPO, DRPO and SPO on r A as a token's probability moves", "".join(body), *styles)


def curves(mu, begin, end, sign, wide, tall, low, high):
    def up(value):
        return (high - value) / (high - low) * tall

    parts = [f'<rect class="back" width="{wide}" height="{tall}"/>']
    for value in (0, 1, 2):
        parts.append(f'<path class="grid" d="M0 {number(up(value))}h{wide}"/>')
    parts.append(f'<path class="same" d="M{number((mu - begin) / (end - begin) * wide)} 0v{tall}"/>')
    pi = (torch.linspace(begin, end, 1201, dtype=torch.float64) + 3e-5).clamp(1e-6, 1 - 1e-6)  # off the boundaries
    for i, (_name, method, params, _light, _dark, _dashes, shift) in enumerate(LINES):
        coefficient, _ = decide(method, params, torch.full_like(pi, mu), pi, sign)
        weight = coefficient / (pi / mu * sign)
        points = [((p - begin) / (end - begin) * wide, min(max(up(w), -50), tall + 50) + (shift if w else 0))
                  for p, w in zip(pi.tolist(), weight.tolist())]
        parts.append(f'<path class="line l{i}" clip-path="url(#plot)" d="{polyline(points)}"/>')
    parts.append(f'<rect class="frame" width="{wide}" height="{tall}"/>')
    return "".join(parts)


def pictures():
    """All figures by file name."""
    return {
        "regions.svg": regions("PPO's clip, DPPO's region and DRPO's slope: coefficient over |A| as a function of mu and pi", [
            ("PPO's clip", "blocks |pi/mu − 1| &gt; 0.2", "ppo", {}, [(0.3, 0.78, "blocked")], [(0.72, 0.22, "blocked")]),
            ("DPPO, Binary-TV", "blocks |pi − mu| &gt; 0.15", "dppo_tv", {}, [(0.3, 0.78, "blocked")], [(0.72, 0.22, "blocked")]),
            ("DPPO, Binary-KL", "blocks KL(mu‖pi) &gt; 0.05", "dppo_kl", {}, [(0.3, 0.78, "blocked")], [(0.72, 0.22, "blocked")]),
            ("DRPO", "weight 1 ∓ (pi − mu)/0.5", "drpo", {}, [(0.19, 0.92, "pulled back")], [(0.79, 0.06, "pulled back")]),
        ]),
        "more_regions.svg": regions("SPO, Mask-DRPO, CISPO and SAPO: coefficient over |A| as a function of mu and pi", [
            ("SPO", "weight 1 ∓ (pi/mu − 1)/0.2", "spo", {}, [(0.3, 0.78, "pulled back")], [(0.72, 0.22, "pulled back")]),
            ("Mask-DRPO", "DRPO outside |pi − mu| ≤ 0.15", "mask_drpo", {}, [(0.3, 0.78, "pulled back")], [(0.72, 0.22, "pulled back")]),
            ("CISPO", "pi/mu at most 1.28", "cispo", {}, [], []),
            ("SAPO", "fades with |pi/mu − 1|", "sapo", {}, [], []),
        ]),
        "weights.svg": weights(),
    }


def main(arguments):
    folder = arguments[0] if arguments else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs", "methods")
    os.makedirs(folder, exist_ok=True)
    for name, text in pictures().items():
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        print(f"{os.path.normpath(path)}: {len(text.encode())} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
