"""Prometheus' text format 0.0.4, read as strictly as `promtool check metrics` reads it (Prometheus 2.42: the
parser, and the rules of promlint), and more: HELP and TYPE are there once, in this order.
"""

import re

NAME = r"[a-zA-Z_][a-zA-Z0-9_]*"
LABEL = rf'({NAME})="((?:[^"\\\n]|\\[\\"n])*)"'
KINDS = ("counter", "gauge", "histogram", "summary", "untyped")
SHORT = ("s", "ms", "us", "ns", "sec", "b", "kb", "mb", "gb", "tb", "pb", "m", "h", "d")
PREFIXES = ("pico", "nano", "micro", "milli", "centi", "deci", "deca", "hecto", "kilo", "kibi", "mega", "mibi", "giga",
            "gibi", "tera", "tebi", "peta", "pebi")
BASES = ("amperes", "bytes", "celsius", "grams", "joules", "kelvin", "meters", "moles", "seconds", "volts")
OTHERS = ("minutes", "hours", "days", "weeks", "kelvins", "fahrenheit", "rankine", "inches", "yards", "miles", "metres",
          "bits", "calories", "pounds", "ounces")
UNITS = {prefix + unit for prefix in ("", *PREFIXES) for unit in BASES + OTHERS} - set(BASES)


class Wrong(AssertionError):
    pass


def need(condition, what):
    if not condition:
        raise Wrong(what)


def check_name(name, kind):
    """The rules of promlint for a family."""
    words = name.split("_")
    need(not re.search("[a-z][A-Z]", name), f"{name}: no snake case")
    need(not set(words[1:]) & set(KINDS + SHORT), f"{name}: the name of a kind or a short unit")
    need(not set(words) & UNITS, f"{name}: no base unit")
    need((kind == "counter") == name.endswith("_total"), f"{name}: a {kind}")
    need(kind == "histogram" or words[-1] not in ("count", "sum", "bucket"), f"{name}: a {kind}")


def check_histogram(name, samples):
    """Cumulative buckets in order, up to all, for each series."""
    series = {}
    for (part, labels), value in samples.items():
        rest = tuple(one for one in labels if one[0] != "le")
        series.setdefault(rest, {}).setdefault(part, []).append((dict(labels).get("le"), value))
    for parts in series.values():
        need(set(parts) == {name + "_bucket", name + "_sum", name + "_count"}, f"{name}: {sorted(parts)}")
        bounds = [float(bound) for bound, _ in parts[name + "_bucket"]]
        counts = [value for _, value in parts[name + "_bucket"]]
        need(bounds == sorted(set(bounds)) and bounds[-1] == float("inf"), f"{name}: bounds {bounds}")
        need(counts == sorted(counts) and counts[-1] == parts[name + "_count"][0][1], f"{name}: counts {counts}")


def parse(text):
    """{family: {(name, ((label, value), ...)): value}}; raises Wrong."""
    need(text == "" or text.endswith("\n"), "the last line has no end")
    families, name, kind = {}, None, None
    for line in text.splitlines():
        if match := re.fullmatch(rf"# HELP ({NAME}) (\S.*)", line):
            need(match[1] not in families, f"{match[1]} twice")
            need(not re.search(r"(?<!\\)(?:\\\\)*\\[^\\n]", match[2]), line)
            name, kind = match[1], None
            families[name] = {}
        elif match := re.fullmatch(rf"# TYPE ({NAME}) (\w+)", line):
            need(match[1] == name and kind is None and match[2] in KINDS, line)
            kind = match[2]
            check_name(name, kind)
        else:
            match = re.fullmatch(rf"({NAME})\{{({LABEL}(?:,{LABEL})*)\}} (\S+)", line)
            need(match and kind, line)
            need(re.fullmatch(rf"{name}(_bucket|_sum|_count)" if kind == "histogram" else name, match[1]), line)
            labels = tuple(re.findall(LABEL, match[2]))
            names = [one for one, _ in labels]
            need(len(set(names)) == len(names), line)
            need(all(re.fullmatch("[a-z_]+", one) and value for one, value in labels if one != "focus"), line)
            need(("le" in names) == match[1].endswith("_bucket") or kind != "histogram", line)
            need(kind == "histogram" or not {"le", "quantile"} & set(names), line)
            need((match[1], labels) not in families[name], f"{line}: twice")
            families[name][match[1], labels] = float(match[match.lastindex])
    for name, samples in families.items():
        need(samples, f"{name}: nothing")
        if any(part != name for part, _ in samples):
            check_histogram(name, samples)
    return families
