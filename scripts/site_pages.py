"""Completes the pages that mkdocs builds: writes the command-line reference, and resolves links to files outside docs/.

The reference is the output of `keel COMMAND --help`, without the settings. The program is $KEEL_BINARY or build/keel.
"""

import os
import pathlib
import posixpath
import re
import subprocess

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAM = os.environ.get("KEEL_BINARY", str(ROOT / "build" / "keel"))


def help_of(*command):
    try:
        done = subprocess.run([PROGRAM, *command, "--help"], stdout=subprocess.PIPE, check=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise PluginError(f"{PROGRAM} cannot print its help ({error}). Fix: make build, or set KEEL_BINARY") from error
    return done.stdout.split("\nSettings:\n")[0].rstrip()


def on_files(files, config):
    overview = help_of()
    text = ("# Command line\n\nOn this page you can look up the arguments and options of every command. "
            "`keel help TOPIC` also explains settings, methods and rewards.\n")
    commands = re.findall(r"(?m)^  (\w+)  +\S", overview.split("Subcommands:\n")[1])
    for title, output in [("keel", overview), *((f"keel {name}", help_of(name)) for name in commands)]:
        text += f"\n## {title}\n\n```text\n{output}\n```\n"
    files.append(File.generated(config, "commands.md", content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    """Adds linked files outside docs/ to the site; of folders and Markdown there, keeps the link's text and the path."""

    def resolve(match):
        mark, text, target = match.groups()
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page.file.src_uri), target.partition("#")[0]))
        if path.startswith("docs/"):
            return match[0]
        if not (ROOT / path).exists():
            raise PluginError(f"{page.file.src_uri}: the link {target} leads to no file")
        if (ROOT / path).is_dir() or path.endswith(".md"):
            return text if path in text else f"{text} (`{path}`)"
        name = f"files/{path}"
        if files.get_file_from_path(name) is None:
            files.append(File.generated(config, name, abs_src_path=str(ROOT / path)))
        return f"{mark}[{text}]({posixpath.relpath(name, posixpath.dirname(page.file.src_uri) or '.')})"

    return re.sub(r"(!?)\[([^\]]*)\]\((\.\./[^)\s]+)\)", resolve, markdown)
