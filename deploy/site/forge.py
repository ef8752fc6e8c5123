"""Reads docs/ as a forge does, where mkdocs would read it otherwise."""

import os
import posixpath
import re

REPOSITORY = "https://github.com/gabion-go/gabion/blob/main/"
ITEM = re.compile(r"( *)([*-]|\d+\.) +\S")
FENCE = re.compile(r" *(```+)")
LINK = re.compile(r"(\]\()([^)#\s:]+)((?:#[^)\s]*)?\))")

# The site has the playground itself, which a forge has not.
PLAY = '\n\n<p><a href="playground/index.html">Open the playground</a> of this version: nothing is installed or sent.</p>\n\n'


def on_config(config):
    config["mdx_configs"]["toc"]["slugify"] = slug
    config["nav"] = sections(config["docs_dir"])
    return config


def on_page_markdown(text, page, config, files):
    pages = {f.src_path for f in files}
    if page.file.src_path == "playground.md":
        text = text.replace("\n\n", PLAY, 1)
    lines = lists(text.split("\n"))
    return "\n".join(line if code else LINK.sub(lambda m: link(m, page, pages), line) for line, code in lines)


def slug(heading, separator):
    """The anchor that a forge gives to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def sections(docs):
    """The parts of README.md and the pages that they link to: a page is in the first that names it."""
    nav, seen = [{"Home": "README.md"}], {"README.md"}
    with open(os.path.join(docs, "README.md"), encoding="utf-8") as f:
        parts = re.split(r"^## (.*)$", f.read(), flags=re.M)
    for title, text in zip(parts[1::2], parts[2::2]):
        entries = []
        for name in re.findall(r"\]\(([^)#\s:]+)", text):
            inside = os.path.join(docs, name)
            found = [name]
            if os.path.isdir(inside):
                found = sorted(posixpath.join(name, p) for p in os.listdir(inside) if p.endswith(".md"))
            found = [p for p in found if p.endswith(".md") and not p.startswith("..") and p not in seen]
            seen.update(found)
            entries += [{os.path.basename(name).capitalize(): found}] if len(found) > 1 else found
        nav.append({title: entries})
    return nav


def link(match, page, pages):
    """Links to folders lead to their README.md, and those to other files to the repository."""
    begin, name, end = match.groups()
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page.file.src_path), name))
    inside = posixpath.relpath(path, "docs")
    if inside in pages:
        return match.group(0)
    if inside + "/README.md" in pages:
        return begin + name.rstrip("/") + "/README.md" + end
    return begin + REPOSITORY + path + end


def lists(lines):
    """Lists may follow a paragraph at once, and two spaces make what follows part of an item. Each
    line is returned with whether it is code."""
    out, fence, item, blank = [], "", 0, True  # item: where the text of the item begins
    for line in lines:
        mark, found = FENCE.match(line), ITEM.match(line)
        depth = len(line) - len(line.lstrip(" "))
        inside = item and depth >= min(item, 2)
        if mark and (not fence or mark.group(1) == fence):
            fence = "" if fence else mark.group(1)
        elif not fence and line and not inside and blank and not found:
            item = 0
        if found and not fence and not mark and depth < 4 and (item or blank or found.group(2) in "*-1."):
            if blank or not item or depth == 0 and out[-1][2]:
                out.append(("", False, False))
            item, line = len(found.group(1)) + len(found.group(2)) + 1, "    " * (depth // 2) + line.lstrip(" ")
            out.append((line, False, False))
        elif inside and line:
            # A second paragraph, or a table, of an item ends only at an empty line.
            out.append(("    " + line[min(item, depth):], bool(fence), blank or bool(out) and out[-1][2]))
        else:
            out.append((line, bool(fence) or depth >= 4 and not item, False))
        blank = not line.strip()
    return [(line, code) for line, code, _ in out]
