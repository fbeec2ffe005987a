"""Templates written for this test, with the constructs of families whose files cannot be downloaded here."""

TEMPLATES = {
    "phi: roles glued into tokens": """{% for message in messages %}{% if message['role'] == 'system' and 'tools' in message and message['tools'] is not none %}
{{ '<|' + message['role'] + '|>' + message['content'] + '<|tool|>' + message['tools'] + '<|/tool|>' + '<|end|>' }}
{% else %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endif %}{% endfor %}
{% if add_generation_prompt %}{{ '<|assistant|>' }}{% else %}{{ eos_token }}{% endif %}""",
    "hermes: a macro turns JSON types into Python's": """{%- macro python_type(spec) -%}
  {%- set names = {"string": "str", "number": "float", "integer": "int", "boolean": "bool"} -%}
  {%- if spec.type in names.keys() -%}
    {{- names[spec.type] -}}
  {%- elif spec.type == "array" -%}
    {{- "list[" + python_type(spec["items"]) + "]" -}}
  {%- elif spec.type == "object" -%}
    {%- if spec.additionalProperties is defined -%}{{- "dict[str, " + python_type(spec.additionalProperties) + "]" -}}{%- else -%}{{- "dict" -}}{%- endif -%}
  {%- elif spec.type is iterable -%}
    {{- "Union[" -}}{%- for t in spec.type -%}{{- python_type({"type": t}) -}}{%- if not loop.last -%}{{- "," -}}{%- endif -%}{%- endfor -%}{{- "]" -}}
  {%- else -%}Any{%- endif -%}
{%- endmacro -%}
{{- bos_token }}{%- for tool in tools or [] %}{%- set f = tool.function if tool.function is defined else tool %}
{{- '\\n' ~ f.name ~ '(' }}{%- for name, spec in (f.parameters.properties or {})|items %}{{- name + ': ' + python_type(spec) }}{{- ', ' if not loop.last }}{%- endfor %}{{- ')' }}
{%- if f.parameters.required is defined %}{{ f.parameters.required|tojson }}{% endif %}{%- endfor %}
{%- for message in messages %}
  {%- if message.role in ('user', 'system') or (message.role == 'assistant' and not message.tool_calls) %}
    {{- '<|im_start|>' + message.role + '\\n' + (message.content or '')|string + '<|im_end|>\\n' }}
  {%- elif message.tool_calls %}
    {%- for call in message.tool_calls %}{%- if call.function is defined %}{%- set call = call.function %}{%- endif %}
{{- '<tool_call>\\n{"arguments": ' }}{{- call.arguments|tojson }}{{- ', "name": "' }}{{- call.name }}{{- '"}\\n</tool_call>' }}{%- endfor %}
  {%- elif message.role == 'tool' %}
    {%- if loop.previtem and loop.previtem.role != 'tool' %}{{- '<|im_start|>tool\\n' }}{%- endif %}
    {{- message.content|tojson }}{%- if not loop.last and loop.nextitem.role != 'tool' %}{{- '<|im_end|>' }}{%- elif loop.last %}{{- '<|im_end|>' }}{%- endif %}
  {%- endif %}
{%- endfor %}""",
    "granite: dates, documents and a namespace": """{%- set ns = namespace(system='Today is ' + strftime_now('%B %d, %Y') + '.', seen=0) %}
{%- if messages[0]['role'] == 'system' %}{%- set ns.system = messages[0]['content'] %}{%- set loop_messages = messages[1:] %}{%- else %}{%- set loop_messages = messages %}{%- endif %}
{%- if documents %}{%- for document in documents %}{{- '[Document ' + loop.index|string + ']' + document['title'] }}{{- document.text|indent(2) }}{%- if not loop.last %}{{- '\\n\\n' }}{%- endif %}{%- endfor %}{%- endif %}
{{- ns.system }}
{%- for message in loop_messages %}{%- set ns.seen = ns.seen + 1 %}{{- '<|start_of_role|>' + message['role'] + '<|end_of_role|>' + message['content'] + '<|end_of_text|>\\n' }}
{%- if loop.last and add_generation_prompt %}{{- '<|start_of_role|>assistant' }}{%- if controls %}{{- ' ' + controls|tojson() }}{%- endif %}{{- '<|end_of_role|>' }}{%- endif %}{%- endfor %}{{ ns.seen }}""",
    "deepseek: a state machine over roles": """{% set ns = namespace(is_first=false, is_tool=false, is_output_first=true, system_prompt='') %}{%- for message in messages %}{%- if message['role'] == 'system' %}{% set ns.system_prompt = message['content'] %}{%- endif %}{%- endfor %}{{bos_token}}{{ns.system_prompt}}
{%- for message in messages %}{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}{{'<｜User｜>' + message['content']}}{%- endif %}
{%- if message['role'] == 'assistant' and message['content'] is none %}{%- set ns.is_tool = false -%}{%- for tool in message['tool_calls']%}{%- if not ns.is_first %}{{'<｜call｜>' + tool['type'] + '\\n' + '```json' + '\\n' + tool['function']['arguments'] + '\\n' + '```'}}{%- set ns.is_first = true -%}{%- else %}{{'\\n' + tool['function']['name']}}{%- endif %}{%- endfor %}{%- endif %}
{%- if message['role'] == 'assistant' and message['content'] is not none %}{% set content = message['content'] %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}{{'<｜Assistant｜>' + content + '<｜end｜>'}}{%- endif %}
{%- if message['role'] == 'tool' %}{%- set ns.is_tool = true -%}{%- if ns.is_output_first %}{{'<out>' + message['content']}}{%- set ns.is_output_first = false %}{%- else %}{{'\\n' + message['content']}}{%- endif %}{%- endif %}{%- endfor -%}{% if ns.is_tool %}{{'<end>'}}{% endif %}{% if add_generation_prompt and not ns.is_tool %}{{'<｜Assistant｜>'}}{% endif %}""",
    "gemma and mistral: strict alternation": """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\\n'}}{% endif %}""",
    "llama 2: system folded into the first turn": """{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% elif false == true and not '<<SYS>>' in messages[0]['content'] %}{% set loop_messages = messages %}{% set system_message = 'x' %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}""",
    "parts: content as a list, with macros, filters and call blocks": """{%- macro text_of(content) -%}{%- if content is string -%}{{ content }}{%- elif content is iterable and content is not mapping -%}{%- for part in content -%}{%- if part.type == 'text' -%}{{ part.text }}{%- elif 'image' in part or part.type == 'image_url' -%}<image>{%- else -%}[{{ part['type']|upper }}]{%- endif -%}{%- endfor -%}{%- else -%}{{ content|tojson(indent=2) if content is mapping else '' }}{%- endif -%}{%- endmacro -%}
{%- macro turn(role) -%}<{{ role|lower }}>{{ caller() }}</{{ role|lower }}>{%- endmacro -%}
{%- for group in messages|groupby('role', default='nobody') %}{{ group.grouper }}:{{ group.list|length }};{% endfor %}
{% for message in messages if message.role is defined %}{% call turn(message.role) %}{% filter trim %} {{ text_of(message.content) }} {% endfilter %}{% endcall %}{{ loop.cycle('\\n', '\\r') }}{% else %}nothing{% endfor %}
{%- set users = messages|selectattr('role', 'equalto', 'user')|list %}{{ users|length }} {{ (users|last).content|string|truncate(20) if users else 'none' }} {{ messages|map(attribute='role')|unique|sort|join('/') }}
{%- for message in messages[::-1] %}{% if loop.index > 2 %}{% break %}{% endif %}{% if message.content is none %}{% continue %}{% endif %}{{ '%-10s|%5d' % (message.role, loop.revindex0) }}{% endfor %}""",
    "generation blocks": """{%- for message in messages -%}<|{{ message.role }}|>{%- if message.role == 'assistant' -%}{% generation %}{{ message.content }}<|end|>{% endgeneration %}{%- else -%}{{ message.content }}<|end|>{%- endif -%}{%- endfor -%}{% if add_generation_prompt %}<|assistant|>{% endif %}""",
    "thinking: the last question from behind": """{%- set ns = namespace(multi_step=true, last=messages|length - 1) %}{%- for message in messages[::-1] %}{%- set index = (messages|length - 1) - loop.index0 %}{%- if ns.multi_step and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}{%- set ns.multi_step = false %}{%- set ns.last = index %}{%- endif %}{%- endfor %}
{%- for message in messages %}{%- set reasoning = '' %}{%- if message.reasoning_content is string %}{%- set reasoning = message.reasoning_content %}{%- elif message.content is string and '</think>' in message.content %}{%- set reasoning = message.content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}{%- endif %}
{{- '<|im_start|>' ~ message.role }}{%- if loop.index0 > ns.last and (loop.last or reasoning) %}{{- '\\n<think>\\n' + reasoning.strip('\\n') + '\\n</think>' }}{%- endif %}{{- message.content if message.content is string }}{%- endfor %}{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}""",
}
