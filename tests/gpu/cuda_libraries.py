"""CUDA's libraries that PyTorch brings along: a machine may have these, and no others where ftar-perf looks."""
import glob
import importlib.util
import os


def bundled(name):
    """The path of PyTorch's own lib<name>.so; nothing if there is none. PyTorch is not loaded for that."""
    torch = importlib.util.find_spec("torch")
    places = [] if torch is None or not torch.origin else [os.path.join(os.path.dirname(torch.origin), "..", "nvidia", "*", "lib")]
    found = [path for place in places for path in sorted(glob.glob(os.path.join(place, f"lib{name}.so*")))]
    return os.path.realpath(found[0]) if found else ""


def options(given, **libraries):
    """Options of ftar-perf, by the names of the libraries, for what `given` ones do not name: options(given, cuda_runtime="cudart")."""
    named = []
    for name, library in libraries.items():
        option, path = "--" + name.replace("_", "-"), bundled(library)
        if path and not any(word == option or word.startswith(option + "=") for word in given):
            named += [option, path]
    return named
