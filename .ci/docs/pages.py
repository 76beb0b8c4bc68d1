"""A hook of MkDocs: pages are written for GitHub, and rendered alike on the site."""

import os
import re

LINK = re.compile(r"\]\(([^)\s:#]+)(#[^)\s]*)?\)")
ITEM = re.compile(r" *(- |\d+\. )")


def on_page_markdown(markdown, page, config, **_):
    return lists(links(markdown, page, config))


def links(markdown, page, config):
    """Leads links to other files of the repository to GitHub."""
    root = os.path.dirname(config.config_file_path)
    folder = os.path.dirname(page.file.abs_src_path)

    def replace(match):
        path = os.path.normpath(os.path.join(folder, match[1]))
        if path.startswith(config.docs_dir + os.sep) or not os.path.exists(path):
            return match[0]  # MkDocs checks it
        kind = "tree" if os.path.isdir(path) else "blob"
        return f"]({config.repo_url}/{kind}/main/{os.path.relpath(path, root)}{match[2] or ''})"

    return LINK.sub(replace, markdown)


def lists(markdown):
    """Python's Markdown wants an empty line before a list, and four spaces before what an item holds."""
    lines, fenced, indent = [], False, 0  # indent: of what the current item holds, 0 outside of lists
    for line in markdown.split("\n"):
        item = not fenced and not line.startswith(" ") and ITEM.match(line)
        if item:
            if lines and lines[-1] and not ITEM.match(lines[-1]):
                lines.append("")
            indent = len(item[0])
        elif indent and line.startswith(" " * indent):
            line = "    " + line[indent:]
        elif line:
            indent = 0
        if line.startswith("```"):
            fenced = not fenced
        lines.append(line)
    return "\n".join(lines)
