"""Runs a user's Python reward function: reads one JSON request per line and writes one JSON reply (docs/rewards.md).

Keel calls it as: python3 -c THIS FILE [FUNCTION]. Output of the user's code goes to standard error.
"""

import asyncio
import importlib.util
import inspect
import itertools
import json
import math
import os
import sys
import traceback
import types

USUAL_NAMES = ("compute_score", "reward_func", "reward_function", "reward", "reward_fn")
ANSWER_NAMES = ("ground_truth", "solution", "label", "labels", "target", "reference", "gold")
# Columns that hold the answer (keel/data/schema.cpp). Samples of `keel eval` use gold.
ANSWER_COLUMNS = {"ground_truth", "answer", "solution", "label", "Answer", "Solution", "reward_model", "reward_spec", "gold"}
LOOP = asyncio.new_event_loop()
FAILURES = (Exception, SystemExit, asyncio.CancelledError)  # of the user's code; the worker continues
MAX_CHARACTERS = 1000  # of an error text
SENT = set()  # code locations whose traceback was sent
TRACEBACKS = []  # for the next reply
TRL_NAMES = {"prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric"}


class NoReward(Exception):
    """The file lacks the requested function. The message needs no traceback."""


def load_function(path, name):
    folder, file = os.path.split(os.path.abspath(path))
    sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(os.path.splitext(file)[0], path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    own = {key: value for key, value in vars(module).items()
           if inspect.isfunction(value) and value.__module__ == module.__name__ and not key.startswith("_")}
    if name:
        if not callable(getattr(module, name, None)):
            raise NoReward(f"{path} has no function {name} (it has {', '.join(own) or 'none'})")
        return getattr(module, name)
    usual = [key for key in USUAL_NAMES if callable(getattr(module, key, None))]
    if usual or len(own) == 1:
        return getattr(module, (usual or list(own))[0])
    raise NoReward(f"{path}: several or no functions. Choose one with python:{path}:NAME (it has {', '.join(own) or 'none'})")


def to_reward(value):
    """Converts a reward to a float or None."""
    if isinstance(value, dict):
        value = value["score"]
    if value is None:
        return None
    if hasattr(value, "item"):
        value = value.item()
    if not isinstance(value, (bool, int, float)):
        raise TypeError(f"the reward is {value!r} ({type(value).__name__}); expected a number or None")
    if not math.isfinite(value):
        raise ValueError(f"the reward is {value}; expected a finite number")
    return float(value)


def call(function, **named):
    """Calls or awaits the function. All calls share an event loop, so that sessions and locks of the user's code stay valid."""
    asyncio.set_event_loop(LOOP)
    result = function(**named)
    return LOOP.run_until_complete(result) if inspect.isawaitable(result) else result


def takes_any_name(parameters):
    return any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def accepted(function, named):
    """Returns the named arguments that the function accepts."""
    parameters = inspect.signature(function).parameters
    return named if takes_any_name(parameters) else {key: named[key] for key in named if key in parameters}


def read_columns(request):
    """Returns the other columns of the data set by name, each a list over the samples."""
    rows = [row if isinstance(row, dict) else {} for row in request["extra"]]
    names = dict.fromkeys(key for row in rows for key in row)
    return {name: [row.get(name) for row in rows] for name in names}


def have_answers(request):
    """Whether the data set has answers, even if these rows have none. Rows of tasks have no columns."""
    return any(answer is not None for answer in request["answers"]) or any(
        not isinstance(row, dict) or not ANSWER_COLUMNS.isdisjoint(row) for row in request["extra"])


def require_answer(parameters, names, columns):
    """Rejects a required answer argument without a column; None for every row would silently give wrong rewards."""
    for name in names:
        if name in parameters and name not in columns and parameters[name].default is inspect.Parameter.empty:
            raise TypeError(f'the function requires "{name}", but no column has that name or is the answer column '
                            f"(columns: {', '.join(columns) or 'none'}). Set data.answer_key to the answer column")


def call_trl(function, request):
    """TRL: reward(prompts, completions, completion_ids, <columns>, trainer_state, ...) -> list of numbers."""
    named = read_columns(request)
    for reserved in ("prompts", "completion", "completions"):
        named.pop(reserved, None)
    parameters = inspect.signature(function).parameters
    if have_answers(request):
        for name in ("answer",) + tuple(name for name in ANSWER_NAMES if name in parameters):
            named.setdefault(name, request["answers"])
    else:
        require_answer(parameters, ("answer",) + ANSWER_NAMES, named)
    named.setdefault("data_source", request["sources"])
    if None not in request["completion_ids"]:
        named["completion_ids"] = request["completion_ids"]
    elif "completion_ids" in parameters:
        raise ValueError("the function requires completion_ids, but the rows have no tokens; "
                         "add a column completion_ids")
    named["trainer_state"] = types.SimpleNamespace(global_step=max(request["steps"], default=0))
    named["log_extra"] = named["log_metric"] = lambda *arguments, **ignored: None
    prompts, completions = [], []
    # As in TRL, the format of the row (text or messages) decides, not the prompt of the model.
    for text, messages, completion in zip(request["texts"], request["messages"], request["completions"]):
        prompts.append(text if messages is None else messages)
        completions.append(completion if messages is None else [{"role": "assistant", "content": completion}])
    named["prompts"], named["completions"] = prompts, completions
    return call(function, **accepted(function, named))


def extra_info(row):
    """Returns what verl's reward managers pass: the column extra_info, else all columns, and two entries of verl."""
    row = row if isinstance(row, dict) else {}
    info = row.get("extra_info", row)
    info = {} if info is None else info
    return {**info, "num_turns": 2, "rollout_reward_scores": {}} if isinstance(info, dict) else info


def call_verl(function, request, i):
    """verl: compute_score(data_source, solution_str, ground_truth, extra_info) -> number or {"score": number}."""
    return call(function, **accepted(function, {"data_source": request["sources"][i], "solution_str": request["completions"][i],
                                                "ground_truth": request["answers"][i],
                                                "extra_info": extra_info(request["extra"][i])}))


def call_verl_batch(function, request):
    """verl with reward_manager batch: the same with lists."""
    return call(function, **accepted(function, {"data_sources": request["sources"], "solution_strs": request["completions"],
                                                "ground_truths": request["answers"],
                                                "extra_infos": [extra_info(row) for row in request["extra"]]}))


def call_openrlhf(function, request):
    """OpenRLHF: reward_func(queries, prompts, labels) -> tensor, list or {"rewards": ...}."""
    result = call(function, **accepted(function, {"queries": request["query"], "prompts": request["prompts"],
                                                  "labels": request["labels"]}))
    return result["rewards"] if isinstance(result, dict) else result


def error_text(error):
    """Formats an exception in one line, with the code location. Escapes lone surrogates, which are invalid in JSON."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = "its text is not available"
    if len(text) > MAX_CHARACTERS:
        text = f"{text[:MAX_CHARACTERS]}... ({len(text)} characters)"
    return f"{type(error).__name__}: {text}{place}".encode("utf-8", "backslashreplace").decode("utf-8")


def add_traceback(error):
    """Adds the traceback to the next reply, once per code location."""
    frames = traceback.extract_tb(error.__traceback__)
    where = " ".join([type(error).__name__, *(f"{frame.filename}:{frame.lineno}" for frame in frames)])
    if where in SENT:
        return
    SENT.add(where)
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    TRACEBACKS.append({"where": where, "text": text.encode("utf-8", "backslashreplace").decode("utf-8")})


def score_each(score_of, count):
    rewards, errors = [], {}
    for i in range(count):
        try:
            rewards.append(to_reward(score_of(i)))
        except FAILURES as error:
            add_traceback(error)
            rewards.append(None)
            errors[str(i)] = error_text(error)
    return {"rewards": rewards, "errors": errors}


def score_batch(result, count):
    if hasattr(result, "tolist"):
        result = result.tolist()
    if isinstance(result, (str, bytes, dict, set, frozenset)) or not hasattr(result, "__iter__"):
        raise TypeError(f"the function returned {result!r} ({type(result).__name__}); expected a list")
    rewards = list(itertools.islice(result, count + 1))  # a generator may be infinite
    if len(rewards) != count:
        returned = len(result) if hasattr(result, "__len__") else len(rewards) if len(rewards) < count else f"more than {count}"
        # An error for every completion prevents a retry with single completions, where always returning one reward would pass.
        error = f"ValueError: the function returned {returned} rewards for {count} completions"
        return {"rewards": [None] * count, "errors": {str(i): error for i in range(count)}}
    return score_each(lambda i: rewards[i], count)


def make_scorer(function):
    """Returns a function from a request to its reply. The parameter names decide between TRL, verl and OpenRLHF."""
    parameters = inspect.signature(function).parameters
    if "completions" not in parameters and "completion_ids" not in parameters:
        if "solution_str" in parameters:
            return lambda r: score_each(lambda i: call_verl(function, r, i), len(r["completions"]))
        if "solution_strs" in parameters:
            return lambda r: score_batch(call_verl_batch(function, r), len(r["completions"]))
        if "queries" in parameters:
            return lambda r: score_batch(call_openrlhf(function, r), len(r["completions"]))
    if not TRL_NAMES.isdisjoint(parameters) or takes_any_name(parameters):
        return lambda r: score_batch(call_trl(function, r), len(r["completions"]))
    raise NoReward(f"{getattr(function, '__name__', function)}({', '.join(parameters)}) is not a supported reward "
                   "function; expected TRL's (prompts, completions, **columns), verl's (data_source, solution_str, "
                   "ground_truth, extra_info; or all as lists) or OpenRLHF's (queries, prompts, labels)")


def main():
    requests = os.fdopen(os.dup(0), "r", encoding="utf-8", errors="replace", newline="\n")
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)
    devnull = os.open(os.devnull, os.O_RDONLY)
    os.dup2(devnull, 0)
    os.close(devnull)
    for stream in (sys.stdout, sys.stderr):  # printing any text must not fail
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    asyncio.set_event_loop(LOOP)

    def send(reply):
        replies.write(json.dumps(reply, allow_nan=False) + "\n")
        replies.flush()

    try:
        score = make_scorer(load_function(*sys.argv[1:3], *([""] if len(sys.argv) < 3 else [])))
    except FAILURES as error:
        if not isinstance(error, NoReward):
            traceback.print_exc()
        send({"ready": False, "error": str(error) if isinstance(error, NoReward) else error_text(error)})
        return
    send({"ready": True})
    for line in requests:
        request = json.loads(line)
        try:
            reply = score(request)
        except FAILURES as error:
            add_traceback(error)
            reply = {"error": error_text(error)}
        send({"id": request["id"], **reply, **({"tracebacks": TRACEBACKS} if TRACEBACKS else {})})
        TRACEBACKS.clear()


if __name__ == "__main__":
    main()
