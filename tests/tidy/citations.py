#!/usr/bin/env python3
"""What comments, scripts and documents cite is in this project: files, headings of documents, links and their
anchors. Prints each citation whose file or heading is not there.

A document is cited by file and heading: docs/design.md, "Order of sums". A path of somebody else's repository begins
with its host, as github.com/apache/singa/examples/cnn/train_cnn.py, and is not looked for."""
import functools
import io
import pathlib
import re
import sys
import tokenize

ROOT = pathlib.Path(__file__).resolve().parents[2]

FOLDERS = (".ci", "charts", "cmake", "crds", "docker", "docs", "examples", "operator", "tests", "trainer")
SLASHES = {".h", ".cc", ".cu"}
HASHES = {".sh", ".cmake", ".yaml", ".yml"}
HASH_NAMES = {"CMakeLists.txt", "Dockerfile", "run"}

PATH = re.compile(r"(?<![\w./$}*-])[\w.-]+(?:/[\w.-]+)*/?")  # more than paths: is_path() decides
CITED_NAME = re.compile(r"^(?!NAME)[\w./-]*\w\.(h|cc|cu|py|sh|md)$")
HEADING = re.compile(r',\s+"([^"]+)"')
NUMBERED = re.compile(r"\b(?:[\w/]+\.md,?|(?!YAML)[A-Z]{4,}) (?:(?:section|chapter) \d|\d+\.\d)")
LINK = re.compile(r"\[(?:[^][]|\[[^]]*\])*\]\(([^()\s]+)\)|^\[[^]]+\]:\s+(\S+)", re.M)
RENDERED = re.compile(r"^```.*?^```|`[^`\n]*`", re.M | re.S)


class Text:
    """Pieces of one file that may cite, joined into lines of prose; knows from which line each came."""

    def __init__(self):
        self.text = ""
        self.starts = []  # offset, line

    def add(self, line, text):
        self.starts.append((len(self.text), line))
        self.text += text.strip() + " "

    def line_of(self, offset):
        return max((start, line) for start, line in self.starts if start <= offset)[1]


def comment_of(line):
    """What follows // outside of a string; None where there is no comment."""
    inside = False
    for i, c in enumerate(line):
        if c == '"' and (i == 0 or line[i - 1] not in "\\'"):
            inside = not inside
        if not inside and line.startswith("//", i):
            return line[i + 2:]
    return None


def comments(path, source):
    """The comments of a source or script, and all of a document."""
    prose = Text()
    if path.suffix == ".py":
        previous = tokenize.NEWLINE
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            docstring = token.type == tokenize.STRING and previous in (tokenize.NEWLINE, tokenize.INDENT)
            if token.type == tokenize.COMMENT or docstring:
                for i, line in enumerate(token.string.splitlines()):
                    prose.add(token.start[0] + i, line.strip().strip("#").replace('"""', ""))
            if token.type not in (tokenize.COMMENT, tokenize.NL):
                previous = token.type
        return prose
    for number, line in enumerate(source.splitlines(), 1):
        if path.suffix == ".md":
            prose.add(number, re.sub(r"\]\([^()]*\)|^\[[^]]+\]:.*", "]", line))  # check_links() is for these
        elif path.suffix in SLASHES:
            comment = comment_of(line)
            if comment is not None:
                prose.add(number, comment)
        elif match := re.search(r"(?:^|\s)#(.*)", line):
            prose.add(number, match[1])
    return prose


def anchor_of(heading):
    """As GitHub makes it."""
    text = re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


class Project:
    """The files of a project below `root`, and what is wrong with their citations."""

    def __init__(self, root):
        self.root = root
        below = [p for folder in FOLDERS if (root / folder).is_dir() for p in sorted((root / folder).rglob("*"))]
        self.files = [p for p in [*sorted(root.glob("*")), *below] if p.is_file() and "__pycache__" not in p.parts]
        self.names = ["/" + p.relative_to(root).as_posix() for p in self.files]
        self.breaches = []

    @functools.cache
    def headings(self, path):
        text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.M | re.S)
        return [match.strip() for match in re.findall(r"^#+ (.*)$", text, re.M)]

    def find(self, name, near):
        """The file or folder that a citation in the folder `near` names: from the root, from there, or by the end of
        its path."""
        for base in (self.root, near):
            if (base / name).exists():
                return (base / name).resolve()
        found = [p for p, full in zip(self.files, self.names) if full.endswith("/" + name)]
        return found[0] if found else None

    def is_path(self, word, path):
        if re.match(r"[\w-]+\.(com|org|io)/", word):
            return False
        if word.split("/")[0] in FOLDERS and "/" in word.strip("/"):
            return True
        # Documents name files of others as well: only a path is taken for one of ours there.
        return CITED_NAME.match(word) is not None and (path.suffix != ".md" or word.endswith(".md"))

    def check_prose(self, path, prose, report):
        for match in NUMBERED.finditer(prose.text):
            report(match.start(), f"{match[0]}: cite the heading, as docs/design.md, \"Order of sums\"")
        for match in PATH.finditer(prose.text):
            word = match[0].rstrip("./")
            if not self.is_path(word, path) or "..." in word:
                continue
            if prose.text[match.end():match.end() + 1] in ("*", "<", "{", "$"):
                continue  # a pattern
            found = self.find(word, path.parent)
            if found is None:
                report(match.start(), f"{word} is not there")
                continue
            end = match.end()
            while found.suffix == ".md" and (heading := HEADING.match(prose.text, end)):
                if heading[1] not in self.headings(found):
                    report(match.start(), f"{word} has no heading \"{heading[1]}\"")
                end = heading.end()

    def check_links(self, path, text, report):
        for match in LINK.finditer(RENDERED.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), text)):
            target = match[1] or match[2]
            if re.match(r"\w+:", target):
                continue
            name, _, anchor = target.partition("#")
            found = (path.parent / name).resolve() if name else path
            if not found.exists():
                report(match.start(), f"link to {target}: {name} is not there")
            elif anchor and anchor not in map(anchor_of, self.headings(found)):
                report(match.start(), f"link to {target}: no such heading")

    def check_strings(self, path, source, report):
        """Messages and help texts send readers to documents, too."""
        for match in re.finditer(r"\b[\w/-]+/[\w-]+\.md\b", source):
            if self.find(match[0], path.parent) is None:
                report(match.start(), f"{match[0]} is not there")

    def check(self):
        for path in self.files:
            if path.suffix not in SLASHES | HASHES | {".py", ".md"} and path.name not in HASH_NAMES:
                continue
            if "golden" in path.parts or path.name == "citations_test.py":  # wrong on purpose
                continue
            source = path.read_text()
            where = path.relative_to(self.root).as_posix()
            prose = comments(path, source)

            def in_prose(offset, what):
                self.breaches.append(f"{where}:{prose.line_of(offset)}: {what}")

            def in_source(offset, what):
                self.breaches.append(f"{where}:{source.count(chr(10), 0, offset) + 1}: {what}")

            self.check_prose(path, prose, in_prose)
            if path.suffix == ".md":
                self.check_links(path, source, in_source)
            else:
                self.check_strings(path, source, in_source)
        return sorted(set(self.breaches))


def main():
    project = Project(ROOT)
    breaches = project.check()
    for breach in breaches:
        print(breach)
    print(f"citations: {len(project.files)} files, {len(breaches)} breaches")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
