"""struct_layout.py CC INCLUDE: the structs of ftar.py lie in memory as those of ftar.h do, by a C program that is made of them."""
import os
import subprocess
import sys
import tempfile

import ftar

PROGRAM = """#include <stddef.h>
#include <stdio.h>
#include <ftar/ftar.h>
int main(void) {
%s
  return 0;
}
"""


def lines(name, struct):
    yield f'  printf("{name} %zu\\n", sizeof({name}));'
    for field, *_ in struct._fields_:
        yield f'  printf("{name}.{field} %zu %zu\\n", offsetof({name}, {field}), sizeof((({name}*)0)->{field}));'
    if "size" in dict(struct._fields_):
        # Every byte of what _INIT says.
        macro = "FTAR_" + "".join("_" + c if c.isupper() else c.upper() for c in name[len("ftar"):]).lstrip("_") + "_INIT"
        yield (f'  {{ {name} one = {macro}; const unsigned char* at = (const unsigned char*)&one; printf("{name}: ");')
        for field, *_ in struct._fields_:
            yield (f'    for (size_t i = 0; i < sizeof one.{field}; ++i) printf("%02x", at[offsetof({name}, {field}) + i]);')
        yield '    printf("\\n"); }'


def ours(name, struct):
    yield f"{name} {ftar.sizeof(struct)}"
    for field, *_ in struct._fields_:
        place = getattr(struct, field)
        yield f"{name}.{field} {place.offset} {place.size}"
    if "size" in dict(struct._fields_):
        image = bytes(struct())
        yield f"{name}: " + "".join(image[p.offset:p.offset + p.size].hex()
                                    for p in (getattr(struct, field) for field, *_ in struct._fields_))


def main():
    compiler, include = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        source, program = os.path.join(folder, "layout.c"), os.path.join(folder, "layout")
        with open(source, "w", encoding="utf-8") as file:
            file.write(PROGRAM % "\n".join(line for item in ftar.STRUCTS.items() for line in lines(*item)))
        subprocess.run([compiler, "-std=c11", "-I", include, source, "-o", program], check=True)
        theirs = subprocess.run([program], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    mine = [line for item in ftar.STRUCTS.items() for line in ours(*item)]
    wrong = [f"ftar.h: {a}\nftar.py: {b}" for a, b in zip(theirs, mine) if a != b]
    print("\n".join(wrong) or f"{len(mine)} sizes, places and initial values are those of ftar.h")
    return 1 if wrong or len(theirs) != len(mine) else 0


if __name__ == "__main__":
    sys.exit(main())
