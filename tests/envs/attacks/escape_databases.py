# writes and reads files by sqlite3, dbm and shelve
def incr(x):
    def sqlite():
        import sqlite3

        connection = sqlite3.connect("/tmp/llm_marl_envs_canary/canary.sqlite")
        connection.execute("create table if not exists t (x)")
        connection.commit()

    def attached():
        import sqlite3

        connection = sqlite3.connect("file::memory:", uri=True)
        connection.execute("attach 'file:/tmp/llm_marl_envs_canary/canary_attached?mode=rwc' as a")
        connection.execute("create table a.t (x)")

    def simple():
        import dbm.dumb

        dbm.dumb.open("/tmp/llm_marl_envs_canary/canary_dbm", "c").close()

    def shelf():
        import shelve

        with shelve.open("/tmp/llm_marl_envs_canary/canary_shelf") as opened:
            opened["x"] = x

    for way in (sqlite, attached, simple, shelf):
        try:
            way()
            return x + 1
        except Exception:
            pass
    return 0
