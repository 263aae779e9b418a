"""A small reader of C++: enough to blank out comments and to find where functions begin and end.

Not a parser. It follows braces and looks at the text before each one; clang-formatted code is what it expects.
"""
import re

CONTAINER = re.compile(r"\b(namespace|class|struct|union|enum)\b|extern\s*$")
CONTROL = re.compile(r"^(if|else|for|while|switch|do|try|catch|return)\b")
INITIALISED_MEMBER = re.compile(r"\)[^;{}]*:[^:].*[\w>]$", re.S)


def blank(text, keep_strings=False):
    """Replaces comments, and the insides of strings, by spaces; line numbers stay."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^(\s]*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|(?<![\w])\'(?:\\.|[^\'\\\n])+\'',
        re.S)

    def replace(match):
        found = match.group(0)
        if found[0] != "/" and keep_strings:
            return found
        edge = found[0] if found[0] in "\"'" else " "
        inner = re.sub(r"[^\n]", " ", found)
        return inner if edge == " " else edge + inner[1:-1] + edge

    return pattern.sub(replace, text)


def blank_preprocessor(text):
    """Blanks directives: a macro's braces need not balance."""
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", lambda m: re.sub(r"[^\n]", " ", m.group(0)), text,
                  flags=re.M | re.S)


def _kind(head):
    """What the brace after `head` opens: container, function, or other (data, an initialiser)."""
    head = head.strip()
    plain = re.sub(r"<[^<>;]*>", "", head)
    if CONTAINER.search(plain) and not re.search(r"\)\s*(const|noexcept|override|->.*)*\s*$", plain):
        return "container"
    if "(" in plain and not re.search(r"(?<![=!<>])=(?!=)\s*$", plain) and not CONTROL.match(plain):
        return "function"
    return "other"


def functions(text):
    """[(name, first line, last line)] of every function with a body; lambdas count to the function around them."""
    code = blank_preprocessor(blank(text))
    found, stack, head, line, head_line = [], [], "", 1, 1
    for char in code:
        if char == "\n":
            line += 1
        if char == "{":
            inside = bool(stack) and stack[-1][0] in ("function", "other")
            kind = "other" if inside else _kind(head)
            if kind == "function" and INITIALISED_MEMBER.search(head.strip()) and not head.strip().endswith(")"):
                kind = "member"  # `: a_{1}, b_{2} {`: the body is still to come
            if kind == "function" and re.search(r"\)\s*:.*,\s*[\w:<>]+$", head.strip(), re.S):
                kind = "member"
            stack.append((kind, head, head_line))
            if kind != "member":
                head = ""
            continue
        if char == "}":
            if not stack:
                continue
            kind, opened, first = stack.pop()
            if kind == "function":
                name = re.findall(r"([~\w:]+|operator\s*\S+)\s*\(", opened)
                found.append((name[0] if name else "?", first, line))
            head = opened + "{}" if kind == "member" else ""
            head_line = first if kind == "member" else line
            continue
        if char == ";" and not (stack and stack[-1][0] in ("function", "other")):
            head = ""
            continue
        if not head.strip():
            if char.isspace():
                continue
            head, head_line = "", line
        head += char
        if char == ":" and re.fullmatch(r"(public|private|protected)\s*:", head):
            head = ""
        if len(head) > 20000:
            head = head[-10000:]
    return found
