/** What names say: of fields, of tools, of commands. Each next to what looks like it. Through the detector's own door. */
import { assert, describe, it } from "@effect/vitest"
import * as FileEdit from "@outlast/agent/guard/loops/FileEdit"
import * as ToolNature from "@outlast/agent/guard/loops/ToolNature"
import * as Volatile from "@outlast/agent/guard/loops/Volatile"
import { isStopped, pausesFirst, ran, random, rounds, runsOn, words } from "./support.ts"

describe("an id", () => {
  const does = (tool: string, args: (i: number) => object, result: unknown = { ok: true }) =>
    rounds(30, (i) => [ran(tool, args(i), result)])

  it("is what a call is about, whatever its field is called, also beside a command or a reason", () => {
    runsOn(does("delete_rule", (i) => ({ rid: 101 + i })))
    runsOn(does("approve_request", (i) => ({ req: `R-${101 + i}` })))
    runsOn(does("job_control", (i) => ({ job_id: 8_812 + i, command: "cancel" })))
    runsOn(does("search_logs", (i) => ({ run_id: 9_100 + i, query: "OutOfMemory" }), { hits: [] }))
    runsOn(does("close_session", (i) => ({ session_id: `${482_913 + 7 * i}`, reason: "idle" })))
  })

  it("signs a call, or names it, only where nobody chose it", () => {
    const next = random(6)
    const hex = () => `${next(10)}a${(next(0x7fff_ffff) + 0x1000_0000).toString(16)}`
    for (const name of ["signature", "client_ref", "hmac"]) {
      isStopped(
        does("get_quote", () => ({ isin: "DE0007164600", [name]: hex() }), { last: 261.35 }),
        5
      )
      runsOn(does("get_status", () => ({ [name]: hex() }), { status: "paid" }))
      runsOn(does("get_status", (i) => ({ [name]: `ACME-${1_042 + i}`, lang: "en" }), { status: "paid" }))
    }
  })

  it("of a run is none where the run is of SQL", () => {
    for (const name of ["job_id", "queryId", "run_label", "statement_name"])
      isStopped(
        does("run_query", (i) => ({ [name]: `agent_${97 * (i + 3)}b`, sql: "SELECT 1 FROM returns" }), "1"),
        5
      )
    // The run is what the SQL asks about.
    runsOn(
      does("run_query", (i) => ({ run_id: 9_100 + i, sql: "SELECT count(*) FROM logs WHERE run = ?" }), "4")
    )
  })
})

describe("names of values", () => {
  it("say where they say nothing", () => {
    const { whereNamed } = Volatile
    for (const name of ["seed", "rev", "revision", "served_by", "server"])
      assert.isDefined(whereNamed(name) ?? Volatile.names.find(([spoken]) => spoken === name), name)
    for (const name of ["req_ts", "csrf", "x-nonce", "X-Trace", "x-amzn-trace-id"])
      assert.strictEqual(whereNamed(name), "anywhere", name)
    for (const name of ["pull_request_id", "client_id", "client_ref", "signature", "flag_id", "lagging_at"])
      assert.notStrictEqual(whereNamed(name), "anywhere", name)
  })

  it("of how far away something is are no clocks, but what runs out by itself is", () => {
    for (const name of ["lag_seconds", "Seconds_Behind_Master", "backlog_ms", "replicationLagMs"])
      assert.isUndefined(Volatile.whereNamed(name), name)
    for (const name of ["token_seconds_left", "remainingTimeInMillis", "eta_s", "flag_id"])
      assert.strictEqual(Volatile.whereNamed(name), "result", name)
  })

  it("may be those of data: what moves in headers, in times, in ranks", () => {
    runsOn(
      rounds(20, (i) => [ran("head", {}, { headers: { "upload-offset": 900 * i, "upload-length": 90_000 } })])
    )
    runsOn(rounds(20, (i) => [ran("get_metric", {}, { rate: 100 + 3 * i })]))
    runsOn(
      rounds(20, (i) => [ran("get_metrics", {}, { timings: { parse: 812 - 11 * i, render: 390 - 7 * i } })])
    )
    runsOn(
      rounds(20, (i) => [
        ran("get_queue", {}, [
          { who: "us", rank: 60 - 2 * i },
          { who: "them", rank: 1 }
        ])
      ])
    )
  })
})

describe("a query", () => {
  const natureOf = (sql: string, tool = "execute") => ToolNature.of(tool, { sql })

  it("writes to some of many rows, and then to the next ones", () => {
    for (const sql of [
      "DELETE FROM a WHERE id IN (SELECT id FROM a LIMIT 5000)",
      "WITH t AS (SELECT TOP 10 * FROM a ORDER BY id) DELETE FROM t",
      "with t as (select id from a fetch first 10 rows only) update a set done = 1 where id in (select id from t)",
      "delete top (5000) from a",
      "UPDATE a SET b = 1 WHERE id IN (SELECT id FROM a FETCH FIRST 100 ROWS ONLY)",
      "with some as (select id from a limit 9) update a set b = 1 from some"
    ])
      assert.strictEqual(natureOf(sql), "advance", sql)
  })

  it("writes the same again, or looks", () => {
    for (const sql of [
      "UPDATE settings SET value = 'limit 100'",
      "INSERT INTO a SELECT * FROM b LIMIT 1 RETURNING id",
      "with old as (select 1) delete from a"
    ])
      assert.strictEqual(natureOf(sql), "act", sql)
    assert.strictEqual(natureOf("select * from a limit 5", "execute"), "read")
    assert.strictEqual(natureOf("with a as (select '(x) delete y') select 1"), "read")
    assert.strictEqual(natureOf("UPDATE a SET b = 1", "explain_plan"), "read")
  })

  it("of no rows stops, and of others as well where ids are made for them", () => {
    const writes = (sql: string, result: (i: number) => object) =>
      rounds(30, (i) => [ran("execute_sql", { sql }, result(i))])
    isStopped(
      writes("DELETE FROM a LIMIT 5000", (i) => ({ rowCount: 0, duration_ms: (7 * i) % 50 })),
      8
    )
    isStopped(
      writes("INSERT INTO a SELECT * FROM b LIMIT 1 RETURNING id", (i) => ({ id: 5_001 + i })),
      3
    )
  })
})

describe("a look of a shell that fails", () => {
  it("is a failure, whatever it says, unless it was to look for something and says nothing", () => {
    for (const said of ["", "exit code 128", "Command timed out after 120s", "not a git repository"])
      isStopped(
        rounds(30, (i) => [ran("bash", { command: `cat src/x${i}.ts` }, said, true)]),
        6
      )
    runsOn(rounds(30, (i) => [ran("bash", { command: `pgrep -c worker${i}` }, "0", true)]))
  })
})

describe("a wait", () => {
  it("is one by whoever and wherever, but not for something", () => {
    const nature = (args: object, tool = "wait") => ToolNature.of(tool, args)
    for (const args of [
      { seconds: 60, agent: "main" },
      { ms: 5, tabId: 3 },
      { durationMs: 9, reason: "x" },
      {}
    ])
      assert.strictEqual(nature(args), "pause", JSON.stringify(args))
    for (const args of [{ sha: "c9383ed" }, { host: "web13", seconds: 60 }, { ticket: 31_220 }])
      assert.strictEqual(nature(args), "read", JSON.stringify(args))
    assert.isTrue(pausesFirst("ci_wait", { sha: "c9383ed" }))
  })
})

describe("an edit", () => {
  const edit = (args: object) => FileEdit.of("edit_file", { path: "a.ts", ...args })

  it("adds where its mode says so, under any name, and still is one", () => {
    for (const name of ["mode", "operation", "op", "action"])
      assert.isTrue(edit({ [name]: "append", text: "x" })?.adds, name)
    const appends = (text: (i: number) => string) =>
      rounds(20, (i) => [
        ran("edit_file", { path: "a.md", mode: "append", text: text(i), note: `${i}` }, "OK")
      ])
    runsOn(appends((i) => `## ${i}`))
    isStopped(
      appends(() => "## the same"),
      6
    )
    assert.isFalse(edit({ action: "add_or_replace", old: "a", new: "b" })?.adds)
    assert.isTrue(edit({ snippet: "x" })?.adds)
  })

  it("of the same lines replaces them, of others does not", () => {
    const writes = (line: (i: number) => number) =>
      rounds(20, (i) => [
        ran("edit_file", { path: "a.ts", start_line: line(i), end_line: 90, content: `x${i}` }, "OK")
      ])
    runsOn(writes((i) => 10 * i))
    isStopped(
      writes(() => 10),
      6
    )
  })
})

describe("a wait for what is clicked then", () => {
  it("is no look at what was clicked before", () => {
    runsOn(
      rounds(60, (i) => [
        ran("browser_wait_for_selector", { selector: "#next" }, "visible"),
        ran("browser_click", { selector: "#next" }, "clicked"),
        ran("browser_snapshot", {}, words(12 * i, 12))
      ])
    )
  })
})

describe("an edit that shows the file", () => {
  it("under its path has not failed, though the file speaks of errors", () => {
    const shown = (i: number) =>
      `src/parser.ts\n  throw new ParseError('unexpected token, failed to read the list of all the names that were given to it before it began with them ${i}')\n  // and so on`
    runsOn(
      rounds(30, (i) => [
        ran("edit_file", { path: "src/parser.ts", old_string: `o${i}`, new_string: `n${i}` }, shown(i))
      ])
    )
  })
})

describe("one page for whatever is looked at", () => {
  it("is told of in time, a list of short answers never", () => {
    const fetches = (text: string) =>
      rounds(60, (i) => [ran("fetch", { url: `https://a.example/p${i}x` }, text)])
    isStopped(
      fetches("Access to this page requires cookies. Please enable cookies and scripts in your browser"),
      32
    )
    runsOn(fetches("200 OK text/html"))
    runsOn(fetches("No results found for it. Please check the filters that you have set and try again"))
  })
})

describe("words of other alphabets", () => {
  it("end where their marks are", () => {
    const next = random(4)
    const marks = "請求書 会社 税 東京 大阪 領収 見積 納品".split(" ")
    isStopped(
      rounds(30, () => [
        ran(
          "kensaku",
          { q: `${marks[next(8)]}、${marks[next(8)]}。${marks[next(8)]}` },
          { hits: [], count: 0 }
        )
      ]),
      20
    )
  })
})
