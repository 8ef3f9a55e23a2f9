"""Files that `ramet init` writes, each a module that runs as it is; the linters and the type checker read them too."""
