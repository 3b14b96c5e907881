# imports code and data from outside in every way that the import system has
def incr(x):
    import importlib.machinery
    import importlib.util
    import runpy
    import sys
    import zipimport

    folder = "/tmp/llm_marl_envs_canary"

    def by_location():
        spec = importlib.util.spec_from_file_location("secret_module", folder + "/secret_module.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.VALUE

    def by_path():
        sys.path.insert(0, folder)
        return __import__("secret_module").VALUE

    ways = [
        by_location,
        by_path,
        lambda: importlib.machinery.SourceFileLoader("a", "/etc/passwd").get_data("/etc/passwd"),
        lambda: runpy.run_path(folder + "/secret_module.py")["VALUE"],
        lambda: zipimport.zipimporter(folder + "/secret.zip").get_data("secret_module.py"),
    ]
    for way in ways:
        try:
            if way():
                return x + 1
        except (Exception, SystemExit):
            pass
    return 0
