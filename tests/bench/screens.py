"""Draws screenshots and icons as PNGs, for the mixes of host.py. A seed always gives the same file.

A screenshot has a gradient, and three windows with title bars, lists, tables, buttons, paragraphs
of text and a place for a photograph. The letters of its font are random strokes with smooth edges:
they compress like text.
"""
import math
import random

from png_file import RGB, RGBA, png

GLYPHS, GLYPH_WIDTH, GLYPH_HEIGHT = 60, 5, 7
CELL_WIDTH, CELL_HEIGHT = 6, 10 # with the space between letters and lines
PAPERS = [(255, 255, 255), (246, 248, 250), (30, 30, 34), (250, 246, 235)]
ACCENTS = [(47, 111, 222), (26, 127, 55), (207, 34, 46), (130, 80, 223), (191, 135, 0)]


def mixed(low, high, part):
    return tuple(round(a + (b - a) * part) for a, b in zip(low, high))


def make_font(chance):
    """Returns the glyphs as rows of 0 and 1: two to four strokes each."""
    font = []
    for _ in range(GLYPHS):
        glyph = [[0] * GLYPH_WIDTH for _ in range(GLYPH_HEIGHT)]
        for _ in range(chance.randint(2, 4)):
            if chance.random() < 0.5:
                x, top = chance.randrange(GLYPH_WIDTH), chance.randrange(3)
                for y in range(top, chance.randint(top + 3, GLYPH_HEIGHT)):
                    glyph[y][x] = 1
            else:
                y, left = chance.randrange(1, GLYPH_HEIGHT), chance.randrange(2)
                for x in range(left, chance.randint(left + 2, GLYPH_WIDTH)):
                    glyph[y][x] = 1
        font.append(glyph)
    return font


def coverage(glyph, x, y, scale):
    """Returns how much of a pixel of the enlarged glyph is ink, 0 to 1."""
    def ink(column, row):
        inside = 0 <= column < GLYPH_WIDTH and 0 <= row < GLYPH_HEIGHT
        return glyph[row][column] if inside else 0
    across, down = (x + 0.5) / scale - 0.5, (y + 0.5) / scale - 0.5
    left, top = math.floor(across), math.floor(down)
    a, b = across - left, down - top
    value = (1 - b) * ((1 - a) * ink(left, top) + a * ink(left + 1, top)) + \
        b * ((1 - a) * ink(left, top + 1) + a * ink(left + 1, top + 1))
    return min(1, max(0, 2 * value - 0.5))


class Canvas:
    def __init__(self, width, height, channels, chance):
        self.width, self.height, self.channels, self.chance = width, height, channels, chance
        self.rows = [bytearray(width * channels) for _ in range(height)]
        self.font, self.glyphs = make_font(chance), {}

    def box(self, x, y, width, height, top, bottom=None):
        """Fills a rectangle with a colour, or with a gradient from top to bottom."""
        left, right = max(0, x), min(self.width, x + width)
        if right <= left:
            return
        for row in range(max(0, y), min(self.height, y + height)):
            colour = mixed(top, bottom, (row - y) / height) if bottom else top
            self.rows[row][left * self.channels:right * self.channels] = \
                bytes(colour) * (right - left)

    def disc(self, x, y, radius, top, bottom=None, corner=1.0):
        """Draws a disc with smooth edges; corner < 1: a square with round corners of that part."""
        for row in range(max(0, y - radius), min(self.height, y + radius)):
            inside = max(0, abs(row + 0.5 - y) - radius * (1 - corner))
            half = radius * (1 - corner) + \
                math.sqrt(max(0, (radius * corner) ** 2 - inside ** 2))
            colour = mixed(top, bottom, (row - y + radius) / (2 * radius)) if bottom else top
            left, right = math.ceil(x - half), math.floor(x + half)
            self.box(left, row, right - left, 1, colour)
            for at, part in ((left - 1, left - x + half), (right, x + half - right)):
                if 0 <= at < self.width:
                    place = slice(at * self.channels, (at + 1) * self.channels)
                    self.rows[row][place] = bytes(mixed(self.rows[row][place], colour, part))

    def glyph_rows(self, scale, ink, paper):
        key = scale, ink, paper
        if key not in self.glyphs:
            blank = bytes(paper) * (CELL_WIDTH * scale)
            made = [[b"".join(bytes(mixed(paper, ink, coverage(glyph, x, y, scale)))
                              for x in range(CELL_WIDTH * scale))
                     for y in range(GLYPH_HEIGHT * scale)] for glyph in self.font]
            self.glyphs[key] = made + [[blank] * (GLYPH_HEIGHT * scale)]
        return self.glyphs[key]

    def text(self, x, y, width, scale, ink, paper):
        """Draws one line of words."""
        letters, room = [], (min(width, self.width - x) // (CELL_WIDTH * scale))
        while len(letters) < room:
            word = self.chance.randint(1, 9)
            letters += [min(self.chance.randrange(GLYPHS), self.chance.randrange(GLYPHS))
                        for _ in range(word)] + [GLYPHS]
        glyphs = self.glyph_rows(scale, ink, paper)
        letters = [glyphs[letter] for letter in letters[:max(0, room)]]
        for row in range(min(GLYPH_HEIGHT * scale, self.height - y)):
            line = b"".join(letter[row] for letter in letters)
            self.rows[y + row][x * self.channels:x * self.channels + len(line)] = line

    def save(self, path, colour_type):
        with open(path, "wb") as file:
            file.write(png(self.width, self.height, colour_type,
                           b"".join(b"\0" + row for row in self.rows)))


def draw_list(canvas, x, y, width, height, scale, ink, paper):
    step = 2 * CELL_HEIGHT * scale
    for top in range(y, y + height - step, step):
        accent = canvas.chance.choice(ACCENTS)
        canvas.disc(x + step // 2, top + step // 2, step // 4, mixed(accent, (255,) * 3, 0.4),
                    accent, canvas.chance.choice((0.3, 1)))
        canvas.text(x + step, top + step // 4, canvas.chance.randint(width // 3, width - step),
                    scale, ink, paper)


def draw_page(canvas, x, y, width, height, scale, ink, paper):
    """Draws a heading, paragraphs, buttons and a table."""
    chance, line = canvas.chance, CELL_HEIGHT * scale
    canvas.text(x, y, width * 2 // 3, 2 * scale, ink, paper)
    end, at = y + height, y + 3 * line
    while at < end - 7 * line:
        for _ in range(chance.randint(2, 6)):
            canvas.text(x, at, chance.randint(width * 2 // 3, width), scale, ink, paper)
            at += line + line // 3
        at += line
        what = chance.random()
        if what < 0.3 and at < end - 3 * line:
            accent = chance.choice(ACCENTS)
            for i in range(chance.randint(1, 4)):
                canvas.box(x + i * 22 * line // 2, at, 10 * line, 2 * line, accent)
                canvas.text(x + i * 22 * line // 2 + line, at + line // 2, 8 * line, scale,
                            (255, 255, 255), accent)
            at += 3 * line
        elif what < 0.5:
            for _ in range(chance.randint(3, 8)):
                if at > end - 3 * line:
                    break
                canvas.box(x, at - line // 3, width, max(1, scale // 2), mixed(paper, ink, 0.2))
                for column in range(4):
                    canvas.text(x + column * width // 4, at, width // 4 - 2 * line, scale, ink,
                                paper)
                at += 2 * line
            at += line


def draw_window(canvas, x, y, width, height, scale, photo):
    """Returns the place of a photograph, if it has one: x, y, width."""
    chance, line = canvas.chance, CELL_HEIGHT * scale
    paper = chance.choice(PAPERS)
    ink = (230, 230, 235) if paper[0] < 128 else (31, 35, 40)
    bar = mixed(paper, ink, 0.12)
    canvas.box(x - scale, y - scale, width + 2 * scale, height + 2 * scale, mixed(paper, ink, 0.35))
    canvas.box(x, y, width, height, paper)
    canvas.box(x, y, width, 3 * line, mixed(bar, (255,) * 3, 0.2), bar)
    for i, colour in enumerate(((255, 95, 86), (255, 189, 46), (39, 201, 63))):
        canvas.disc(x + (2 + 2 * i) * line, y + 3 * line // 2, line // 2, colour)
    side = width // 4
    canvas.box(x, y + 3 * line, side, height - 3 * line, bar)
    draw_list(canvas, x + line, y + 4 * line, side - 2 * line, height - 5 * line, scale, ink, bar)
    left, top, room = x + side + 2 * line, y + 5 * line, width - side - 4 * line
    place = None
    if photo:
        place = left, top, room * 2 // 3
        top += room // 2
    draw_page(canvas, left, top, room, y + height - top, scale, ink, paper)
    return place


def draw_screen(path, seed, width, height, scale):
    """Writes a screenshot; scale: pixels per pixel of the font. Returns a photograph's place."""
    chance = random.Random(seed)
    canvas = Canvas(width, height, 3, chance)
    canvas.box(0, 0, width, height, chance.choice(ACCENTS), (24, 28, 46))
    for i in range(3):
        least, most = (0.85, 1) if i == 0 else (0.45, 0.75)
        w, h = (int(side * chance.uniform(least, most)) for side in (width, height))
        place = draw_window(canvas, chance.randint(0, width - w),
                            chance.randint(0, height - h), w, h, scale, i == 2)
    canvas.save(path, RGB)
    return place


def draw_icons(path, seed, side, cell):
    """Writes a square sheet of icons on a transparent background, one per cell."""
    chance = random.Random(seed)
    canvas = Canvas(side, side, 4, chance)
    for y in range(0, side, cell):
        for x in range(0, side, cell):
            colour = (*chance.choice(ACCENTS), 255)
            light = (*mixed(colour[:3], (255,) * 3, 0.5), 255)
            middle = (x + cell // 2, y + cell // 2)
            canvas.disc(*middle, cell * 7 // 16, light, colour, chance.choice((0.2, 0.5, 1)))
            canvas.disc(*middle, chance.randint(cell // 8, cell // 4), (255, 255, 255, 255), None,
                        chance.choice((0.3, 1)))
            canvas.box(x + cell // 4, middle[1], cell // 2, max(1, cell // 16), colour)
    canvas.save(path, RGBA)
