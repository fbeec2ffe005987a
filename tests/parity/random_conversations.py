"""Random conversations of users and tools, including unusual ones; and chat templates to render them with."""

import pathlib

from packages import sections

FAMILY_TEMPLATES = {name: text.removesuffix("\n") for name, text in
                    sections(pathlib.Path(__file__).with_name("family_templates.txt")).items()}
TEXTS = ["Hi", "", " ", "What is 2+2?", "  two  spaces \n", "line one\nline two\n", "größe — “quotes” 日本語 🙂👩‍👩‍👧", "a\tb\r\nc",
         "<think>\nhm\n</think>\n\nanswer", "<think>open", "no</think>yes", "{{ not a template }} {% raw %}", "\\n \\ \"quoted\" 'single'",
         "<|im_end|><|eot_id|>[INST]", "0", "None", "x" * 300, "\u2028sep\u0085nel\u00a0nbsp", "é\u0301 \u200b zero", "&<>'\""]
ROLES = ["user", "assistant", "system", "tool", "developer", "function", "ipython", "User"]
SCHEMA = {"type": "object", "required": ["city"], "properties": {"city": {"type": "string", "description": "The city, e.g. Köln"},
                                                                 "unit": {"type": ["string", "null"], "enum": ["c", "f"], "default": "c"},
                                                                 "days": {"type": "array", "items": {"type": "integer"}, "nullable": True},
                                                                 "where": {"type": "object",
                                                                           "properties": {"lat": {"type": "number"},
                                                                                          "lon": {"type": "number"}}}}}


def tool(random):
    function = {"name": random.choice(["get_weather", "add", "python", "名前"]), "description": random.choice(TEXTS),
                "parameters": random.choice([SCHEMA, {"type": "object", "properties": {}}, {}])}
    if random.random() < 0.2:
        function["return"] = {"type": "string", "description": "what it is"}
    if random.random() < 0.1:
        return function
    return {"type": "function", "function": function}


def arguments(random):
    return random.choice([{}, {"city": "Köln", "days": [1, 2.5, -3], "deep": {"a": None, "b": [True, False]}}, {"x": 1e20, "y": 0.1},
                          '{"city": "Köln"}', "not json", {"text": random.choice(TEXTS)}])


def content(random):
    if random.random() < 0.75:
        return random.choice(TEXTS)
    if random.random() < 0.3:
        return None
    parts = [{"type": "text", "text": random.choice(TEXTS)}, {"type": "image"}, {"type": "image", "image": "a.png"},
             {"type": "text", "text": "two"}, {"type": "image_url", "image_url": {"url": "u"}}, {"type": "audio"}]
    return random.sample(parts, random.randint(0, 3))


def message(random, role):
    result = {"role": role, "content": content(random)}
    if role == "assistant" and random.random() < 0.35:
        call = {"name": random.choice(["get_weather", "add"]), "arguments": arguments(random)}
        calls = [random.choice([call, {"type": "function", "function": call}, {"id": "abcdefghi", "type": "function", "function": call}])
                 for _ in range(random.randint(0, 2))]
        result["tool_calls"] = calls
        if random.random() < 0.3:
            del result["content"]
    if role == "assistant" and random.random() < 0.2:
        result[random.choice(["reasoning_content", "thinking", "reasoning"])] = random.choice(TEXTS + [None])
    if role in ("tool", "function", "ipython"):
        if random.random() < 0.6:
            result["name"] = random.choice(["get_weather", "add"])
        if random.random() < 0.6:
            result["tool_call_id"] = random.choice(["abcdefghi", "call_1"])
        if random.random() < 0.2:
            result["content"] = {"temperature": 21.5, "unit": "c"}
    if random.random() < 0.03:
        result.pop(random.choice(list(result)))
    return result


def messages(random):
    result = []
    if random.random() < 0.5:
        result.append(message(random, random.choice(["system", "system", "developer"])))
    if random.random() < 0.7:  # the usual order of roles
        for _ in range(random.randint(1, 4)):
            result.append(message(random, "user"))
            result.append(message(random, "assistant"))
            if "tool_calls" in result[-1]:
                result += [message(random, "tool") for _ in result[-1]["tool_calls"] or [0]]
                if random.random() < 0.6:
                    result.append({"role": "assistant", "content": random.choice(TEXTS)})
        if random.random() < 0.5 and len(result) > 1:
            result.pop()
    else:
        result += [message(random, random.choice(ROLES)) for _ in range(random.randint(1, 5))]
    return result


def extra(random):
    result = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    if random.random() < 0.05:
        result = {}
    if random.random() < 0.4:
        result["tools"] = [tool(random) for _ in range(random.randint(0, 3))]
    if random.random() < 0.1:
        result["documents"] = [{"title": random.choice(TEXTS), "text": random.choice(TEXTS)} for _ in range(2)]
    if random.random() < 0.6:
        result["add_generation_prompt"] = random.random() < 0.7
    for name in ["enable_thinking", "keep_past_thinking", "clear_thinking", "tools_in_user_message", "preserve_thinking", "thinking"]:
        if random.random() < 0.15:
            result[name] = random.random() < 0.5
    choices = {"reasoning_effort": ["low", "high"], "date_string": ["26 Jul 2024"], "model_identity": ["You are Keel."],
               "builtin_tools": [["browser", "python"], ["python"]], "builtin_tools_": [None], "custom_tools": [[tool(random)]],
               "citation_mode": ["fast"], "tool_choice": ["auto"]}
    for name, values in choices.items():
        if random.random() < 0.1:
            result[name] = random.choice(values)
    return result
