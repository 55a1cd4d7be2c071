"""Draws SVG charts, legible on light and on dark pages."""
from xml.sax.saxutils import escape

STYLE = """
  text { font: 13px system-ui, "DejaVu Sans", sans-serif; fill: #1f2328 }
  .title { font-size: 15px; font-weight: 600 } .head { font-weight: 600 }
  .small { font-size: 11.5px; fill: #59636e } .own { font-weight: 600 }
  .page { fill: #ffffff } .grid { stroke: #d1d9e0; stroke-width: 1 }
  .bar { fill: #afb8c1 } .bar.own { fill: #2f6fde }
  .line { fill: none; stroke: #2f6fde; stroke-width: 2 } .dot { fill: #2f6fde }
  .curve { fill: none; stroke-width: 1.5 } .ring { fill: none; stroke-width: 2 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .small { fill: #9198a1 } .page { fill: #0d1117 }
    .grid { stroke: #30363d } .bar { fill: #4b535d } .bar.own { fill: #4f8ff7 }
    .line { stroke: #4f8ff7 } .dot { fill: #4f8ff7 }
  }"""
WIDTH = 820


class Drawing:
    def __init__(self, height, width=WIDTH):
        self.parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
                      f'height="{height:.0f}" viewBox="0 0 {width} {height:.0f}" role="img">',
                      f"<style>{STYLE}\n</style>",
                      f'<rect class="page" width="{width}" height="{height:.0f}" rx="6"/>']

    def text(self, x, y, text, kind="", anchor="start"):
        self.parts.append(f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" '
                          f'text-anchor="{anchor}">{escape(text)}</text>')

    def bar(self, x, y, width, height, kind):
        self.parts.append(f'<rect class="bar {kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
                          f'height="{height:.1f}" rx="2"/>')

    def line(self, points, kind, color=None):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline class="{kind}" points="{points}"{style("stroke", color)}/>')

    def dot(self, x, y, color=None, note=""):
        self.parts.append(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3.5"'
                          f'{style("fill", color)}>{title(note)}</circle>')

    def square(self, x, y, color, note=""):
        self.parts.append(f'<rect x="{x - 4.5:.1f}" y="{y - 4.5:.1f}" width="9" height="9"'
                          f'{style("fill", color)}>{title(note)}</rect>')

    def ring(self, x, y, color):
        self.parts.append(f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="11"'
                          f'{style("stroke", color)}/>')

    def save(self, path):
        with open(path, "w") as file:
            file.write("\n".join(self.parts + ["</svg>", ""]))


def style(name, color):
    return f' style="{name}:{color}"' if color else ""


def title(note):
    return f"<title>{escape(note)}</title>" if note else ""


def bars(path, heading, panels):
    """panels: (head, [(name, value, text)]); the first row of a panel is highlighted."""
    left, right, step, thick = 130, 100, 24, 15
    height = 44 + sum(34 + step * len(rows) + 12 for _, rows in panels)
    drawing, y = Drawing(height), 44
    drawing.text(20, 28, heading, "title")
    for head, rows in panels:
        most = max(value for _, value, _ in rows)
        drawing.text(20, y + 20, head, "head")
        y += 34
        for number, (name, value, text) in enumerate(rows):
            kind = "own" if number == 0 else ""
            wide = (WIDTH - left - right) * value / most
            drawing.text(left - 10, y + thick - 2.5, name, kind, "end")
            drawing.bar(left, y, wide, thick, kind)
            drawing.text(left + wide + 7, y + thick - 2.5, text, kind)
            y += step
        y += 12
    drawing.save(path)
