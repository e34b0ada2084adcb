/** Long work that looks like a loop, and next to each the loop that it looks like. Through the detector's own door. */
import { assert, describe, it } from "@effect/vitest"
import * as ToolNature from "@outlast/agent/guard/loops/ToolNature"
import * as Volatile from "@outlast/agent/guard/loops/Volatile"
import { isStopped, pausesFirst, ran, random, read, rounds, runsOn } from "./support.ts"

const settings =
  "http2 gzip brotli keepalive timeout buffers charset resolver referrer expires etag sendfile aio mmap limit zone".split(
    " "
  )

/** A configuration with so many settings, as an editor shows it. */
const shown = (count: number): string =>
  ["server {", "  listen 443 ssl;", "  location / { proxy_pass http://app; }", "  root /srv/www/site;"]
    .concat(settings.slice(0, count).map((name) => `  ${name} on;`))
    .concat("}")
    .map((line, i) => `${String(i + 1).padStart(6)}  ${line}`)
    .join("\n")

const path = "/etc/nginx/site.conf"
const view = (count: number) => ran("editor", { command: "view", path }, shown(count))
const adds = (i: number) =>
  ran(
    "editor",
    { command: "str_replace", path, old_str: "}", new_str: `  ${settings[i]} on;\n}` },
    `The file ${path} has been edited. Here is a snippet of it:\n${shown(i + 1)}`
  )
const checks = ran("bash", { command: "nginx -t" }, "syntax is ok, the test of the file was successful")
const reloads = ran("bash", { command: "systemctl reload nginx" }, "")

describe("errors", () => {
  const rules = "F401 E501 I001 UP006 B006 SIM108 RET505 PTH123 C408 N802 D100 S101 T201 W605".split(" ")
  const count = (rule: string, errors: number) =>
    ran(
      "bash",
      { command: `git commit -qam ${rule}; ruff check . | tail -1` },
      `Found ${errors} errors.`,
      true
    )
  const fixes = (rule: string, i: number) =>
    ran(
      "bash",
      { command: `ruff check . --select ${rule} --fix; git diff --stat` },
      `${(i * 37) % 90} files changed`
    )

  it("are the same for ever other causes, each found and seen to", () => {
    const causes = (
      "secret:smtp-creds:missing probe:ready:404 memory:limit:exceeded volume:storageclass:unbound port:bind:denied " +
      "policy:egress:blocked role:grant:lacking certificate:name:expired"
    ).split(" ")
    const deploys = (done: boolean) =>
      ran(
        "helm_upgrade",
        { release: "mailer" },
        done ? { status: "deployed" } : { status: "failed", error: "timed out waiting for the condition" },
        !done
      )
    const looks = (cause: string) =>
      ran("get_events", { namespace: "mail" }, [{ message: cause.replaceAll(":", " ") }])
    const mends = (cause: string) =>
      ran("patch_values", { [cause.split(":")[0] ?? ""]: `${cause}-new` }, { patched: true })
    runsOn([...causes.flatMap((cause) => [deploys(false), looks(cause), mends(cause)]), deploys(true)])
    isStopped(
      rounds(12, (i) => [deploys(false), looks(causes[0] ?? ""), mends(causes[i % 8] ?? "")]),
      24
    )
  })

  it("get fewer as tests that go well get more, with a plateau and a step back", () => {
    const left = [19, 17, 17, 13, 12, 12, 14, 9, 8, 6, 6, 3, 1]
    const test = (failed: number) =>
      ran("bash", { command: "pytest -q | tail -1" }, `${failed} failed, ${223 - failed} passed`, true)
    const edit = (i: number) =>
      ran("edit_file", { path: `parser/${rules[i % 14]}.py`, old: `a${i}`, new: `b${i}` }, "applied")
    runsOn(left.flatMap((failed, i) => [edit(i), test(failed)]))
    isStopped(
      left.flatMap((_, i) => [edit(i), test(12 + (i % 2))]),
      20
    )
  })

  it("get fewer where a command mends them, though no file was edited by a tool", () => {
    runsOn(rules.flatMap((rule, i) => [fixes(rule, i), count(rule, 412 - 29 * i)]))
    isStopped(
      rules.flatMap((rule, i) => [fixes(rule, i), count(rule, 412)]),
      20
    )
    // Nothing was done about them.
    isStopped(
      rules.map((rule, i) => count(rule, 412 - 29 * i)),
      12
    )
  })
})

describe("a game", () => {
  const side = 9
  const board = (moves: number) =>
    Array.from({ length: side }, (_, row) =>
      Array.from({ length: side }, (_, col) => {
        const at = side * row + col
        return (at * 41) % 81 < moves ? (at % 3) + 1 : "x"
      }).join(" ")
    )
  const opens = (i: number, shown: number) =>
    ran(
      "ms_open",
      { row: (i * 5) % side, col: (i * 7 + Math.floor(i / side)) % side },
      { state: "playing", board: board(shown) }
    )

  it("goes on when the board is arranged anew, of what was on it before", () => {
    runsOn(rounds(50, (i) => [opens(i, 12 + i)]))
    isStopped(
      rounds(50, (i) => [opens(i, 12)]),
      16
    )
  })
})

describe("what waits for something", () => {
  const works = (i: number) =>
    ran("write_file", { path: "ci.yml", content: `# try ${settings[i % 16]}\nrun: publish` }, "written")
  const waits = (args: object, failed: boolean) =>
    ran("ci_wait", args, failed ? "npm ERR! need auth: the secret NPM_TOKEN is not set" : "passed", failed)

  it("tells how it ended, and may fail as before", () => {
    isStopped(
      rounds(16, (i) => [works(i), waits({ sha: `c93${i}83e` }, true)]),
      18
    )
  })

  it("for a time only tells nothing", () => {
    runsOn(rounds(30, () => [ran("wait", { seconds: 30, reason: "let it settle" }, "waited 30 s")]))
  })
})

describe("work on one file", () => {
  it("shows the file after each edit, and the check stays green", () => {
    runsOn(rounds(settings.length, (i) => [adds(i), view(i + 1), checks, reloads]))
    isStopped([adds(0), ...rounds(20, () => [view(1), checks, reloads])], 16)
  })

  it("puts things beside an anchor, again and again", () => {
    const draws = (i: number) => `  draw(${settings[i]})\n`
    const edit = (before: string, after: string) =>
      ran("edit_file", { path: "game.js", old_string: before, new_string: after }, "The file was updated.")
    runsOn(rounds(settings.length, (i) => [edit("// end", `${draws(i)}// end`)]))
    // But what it has just written it writes anew each time, and looks at nothing.
    isStopped(
      rounds(16, (i) => [edit(draws(i), draws(i + 1))]),
      7
    )
  })

  it("reads it again after each edit, though all that is new in it are numbers that the edit wrote", () => {
    const parts = "header nav main aside footer card form list table dialog menu badge chip tabs".split(" ")
    const css = (done: number) =>
      parts
        .map(
          (part, i) =>
            `${part} {\n  color: var(--fg);\n  margin: ${i < done ? `${(i + 3) / 16}rem` : `${i + 3}px`};\n}`
        )
        .join("\n")
    const edit = (i: number) =>
      ran(
        "edit_file",
        { path: "main.css", old: `margin: ${i + 3}px`, new: `margin: ${(i + 3) / 16}rem` },
        `Saved main.css:\n${css(i + 1)}`
      )
    runsOn(rounds(parts.length, (i) => [edit(i), ran("read_file", { path: "main.css" }, css(i + 1))]))
  })
})

describe("an edit", () => {
  it("that adds, or shows a part only, replaces nothing", () => {
    const appends = (i: number) => ({
      mode: "append",
      text: `\n## ${settings[i % 16]}\n\nHow to deal with it.\n`
    })
    const sketches = (i: number) => ({ code_edit: `"${settings[i % 16]}": { "title": "${i}" }` })
    const writes = (i: number) => ({ content: `"${settings[i % 16]}": { "title": "${i}" }` })
    const edits = (args: (i: number) => object) =>
      rounds(20, (i) => [ran("edit_file", { path: "docs/guide.md", ...args(i) }, "OK")])
    runsOn(edits(appends))
    runsOn(edits(sketches))
    isStopped(edits(writes), 6)
  })

  it("that writes something at a place is no file that is written anew", () => {
    const puts = (line: number, text: string) =>
      ran("edit_file", { path: "openapi.yaml", insert_after_line: line, text }, "Inserted.")
    runsOn(rounds(20, (i) => [puts(3 + 20 * i, `  /${settings[i % 16]}/{id}:\n    get: {}\n`)]))
    runsOn(rounds(20, (i) => [puts(3 + 20 * i, "}\n")]))
    isStopped(
      rounds(16, (i) => [puts(3, i % 2 === 0 ? "a: 1\n" : "a: 2\n")]),
      6
    )
  })

  it("of lines that are taken away and brought is no file that is written anew, though it has no head", () => {
    const moves = (i: number) =>
      ran(
        "patch",
        {
          path: "repo/orders.go",
          diff: `+func (r *Orders) ${settings[i]}(id string) error {\n+\treturn r.db.Exec(${settings[i]}, id)\n+}`
        },
        "patched"
      )
    runsOn(rounds(16, (i) => [moves(i)]))
    const turns = (i: number) =>
      ran("patch", { path: "a.go", diff: i % 2 === 0 ? "-x := 1\n+x := 2" : "-x := 2\n+x := 1" }, "patched")
    isStopped(
      rounds(20, (i) => [turns(i)]),
      8
    )
  })

  it("shows a file that speaks of errors, and is none", () => {
    const body = (i: number) =>
      Array.from(
        { length: 6 },
        (_, n) => `  if (!x) throw new Error("failed: no ${settings[(i + n) % 3]} in this place")`
      ).join("\n")
    const edit = (i: number, result: string, failed: boolean) =>
      ran(
        "edit_file",
        { path: `src/${settings[i]}.ts`, old_str: `${settings[i]}(a)`, new_str: `${settings[i]}(b)` },
        result,
        failed
      )
    runsOn(rounds(16, (i) => [edit(i, `edited:\n${body(i)}`, false)]))
    isStopped(
      rounds(16, (i) => [edit(i, "Error: the old text was not found", true)]),
      8
    )
  })

  it("may be of a document that is no file", () => {
    const said = ["Our spring collection arrives on 14 March.", "On 14 March our spring collection arrives."]
    const turns = (i: number) =>
      ran(
        "docs_replace",
        { doc_id: "d_7Qm", find: said[i % 2], with: said[(i + 1) % 2] },
        { revision: 100 + i, replaced: 1 }
      )
    isStopped(
      rounds(20, (i) => [turns(i)]),
      8
    )
  })
})

describe("a check", () => {
  const test = (result: string, failed: boolean) => ran("bash", { command: "go test ./..." }, result, failed)
  const red = (i: number) =>
    test(`--- FAIL: TestParse\n parse_test.go:${i + 9}: Parse("${settings[i]}") = 0, want ${i}\nFAIL`, true)
  const green = test("ok example.org/parse", false)
  const writes = (file: string, i: number) =>
    ran("insert_line", { path: file, line: i + 9, text: `{"${settings[i]}", ${i}},` }, "ok")

  it("is red and green in turns where each test is written first", () => {
    runsOn(rounds(settings.length, (i) => [writes("parse_test.go", i), red(i), writes("parse.go", i), green]))
    const patch = (file: string, i: number) =>
      ran(
        "apply_patch",
        { input: `*** Update File: ${file}\n@@\n-}{\n+}{\n+  {"${settings[i]}", ${i}},\n` },
        `Success. Updated:\nM ${file}`
      )
    runsOn(rounds(settings.length, (i) => [patch("parse_test.go", i), red(i), patch("parse.go", i), green]))
    // And stays red where nothing helps.
    isStopped(
      rounds(20, (i) => [patch("parse.go", i), red(0)]),
      16
    )
  })

  it("is no failure as before that breaks what went well: tests of one file are written, and code of another", () => {
    const broken = test("FAIL: parse is not done", true)
    const patches = (file: string, i: number) =>
      ran(
        "edit_file",
        { path: file, old: `{${settings[i]}`, new: `{${settings[i]}, ${settings[i + 1]}` },
        "done"
      )
    runsOn(rounds(12, (i) => [patches("parse_test.go", i), broken, patches("parse.go", i), green]))
  })

  it("fails as before, but with what is printed for the first time", () => {
    const prints = (n: number) => settings.slice(0, n).map((name) => `DBG ${name} on`)
    const error = "[ERROR] skipsWeekend expected: Monday but was: Saturday"
    const adds = (i: number) =>
      ran(
        "edit_file",
        { path: "A.java", old: `${settings[i]};`, new: `${settings[i]};\nprint("DBG ${settings[i]} on")` },
        "edited"
      )
    runsOn(
      rounds(9, (i) => [
        adds(i),
        ran("bash", { command: "mvn test" }, [...prints(i + 1), error].join("\n"), true)
      ])
    )
  })

  it("may fail with other numbers after each edit: it got further", () => {
    const cases = [90, 5400, 172_800, 7, 600, 777_600, 15_000, 33]
    const fails = (i: number) =>
      test(`FAIL: parse says ${cases[i]} and not ${(cases[i] ?? 0) * 60 + 1}`, true)
    const edit = (i: number) =>
      ran(
        "edit_file",
        { path: "p.go", old: settings[i], new: `${settings[i]} and ${settings[i + 1]}` },
        "done"
      )
    runsOn(rounds(cases.length, (i) => [edit(i), fails(i)]))
  })

  it("has fewer and fewer errors, though all are the same", () => {
    const errors = (left: number) =>
      Array.from(
        { length: left },
        (_, i) => `src/util.ts(${31 - left + i},25): error TS7006: Parameter 'x' has no type.`
      ).join("\n")
    const edit = (i: number) =>
      ran(
        "edit_file",
        { path: "src/util.ts", old: `f${i}(x)`, new: `f${i}(x: unknown)` },
        "The file was updated."
      )
    runsOn(rounds(30, (i) => [edit(i), ran("bash", { command: "npx tsc" }, errors(30 - i), true)]))
    isStopped(
      rounds(30, (i) => [edit(i), ran("bash", { command: "npx tsc" }, errors(30), true)]),
      12
    )
  })

  it("has fewer and fewer errors to count, whatever comes first", () => {
    const errors = (left: number) =>
      Array.from(
        { length: Math.min(left, 5) },
        (_, i) => `a.py:${40 + i}: error: ${settings[(left + i) % 16]} has no type`
      )
        .concat(`Found ${left} errors`)
        .join("\n")
    const edit = (i: number) =>
      ran("edit_file", { path: "a.py", old: `def f${i}():`, new: `def f${i}() -> None:` }, "done")
    runsOn(rounds(34, (i) => [edit(i), ran("bash", { command: "mypy ." }, errors(34 - i), true)]))
  })
})

describe("steps that all bring the same", () => {
  it("are fine while something else gets on", () => {
    const weights = [1, 2, 5, 10, 20, 35, 50, 65, 80, 100]
    const app = "search-api"
    const asks = (query: string, value: number) => ran("query_metric", { query }, { value })
    runsOn(
      rounds(weights.length, (i) => [
        ran("set_weight", { app, weight: weights[i] }, { weight: weights[i], status: "Progressing" }),
        asks(`rate of ${app}`, (weights[i] ?? 0) * 41 + 0.5),
        ran("list_alerts", { app }, [])
      ])
    )
    isStopped(
      rounds(16, () => [
        ran("set_weight", { app, weight: 5 }, { weight: 5 }),
        ran("list_alerts", { app }, [])
      ]),
      12
    )
  })

  it("are a debugger's in a loop of the program, while its variables move", () => {
    const lines = ["48 for (i = 0; i < n; i++) {", "49 k = half[i];", "50 f = exp(-k);", "51 mass *= f;"]
    const steps = lines.map((line) => ran("gdb_next", {}, line))
    const next = random(7)
    const value = () => next(9_999) / 1e4
    const locals = (i: number) =>
      ran("gdb_locals", {}, `i = ${i}\nk = ${value()}\nf = ${value()}\nmass = ${value()}`)
    runsOn(rounds(12, (i) => [...steps, locals(i)]))
    isStopped(
      rounds(30, () => [...steps, ran("gdb_locals", {}, "i = 0\nk = 0.5\nf = 0.25")]),
      60
    )
  })

  it("are a search by halves, while fewer are left", () => {
    const marks = (left: number, commit: number) =>
      `Bisecting: ${left} revisions left to test after this (roughly ${Math.ceil(Math.log2(left + 1))} steps)\n` +
      `[${(commit * 7_654_321).toString(16)}c0ffee${commit}] change ${commit}`
    const isGood = [true, false, false, false, true, true, true, false, true]
    const good = ran("bash", { command: "node check.js" }, "ok 100")
    const bad = ran("bash", { command: "node check.js" }, "Exit code 1\nFAIL 120", true)
    const mark = (i: number) =>
      ran(
        "bash",
        { command: `git bisect ${isGood[i] === true ? "good" : "bad"}` },
        marks(340 >> i, 300 + 11 * i)
      )
    runsOn([bad, good, ...rounds(isGood.length, (i) => [isGood[i] === true ? good : bad, mark(i)])])
  })
})

describe("what is no progress", () => {
  it("is a number of an error that gets less: what was asked for, the tries that are left", () => {
    const errors: ReadonlyArray<(i: number) => ReturnType<typeof ran>> = [
      (i) => ran("get_record", { id: 90 - i }, `Error: record ${90 - i} does not exist`, true),
      (i) =>
        ran(
          "bash",
          { command: `pip install foo==${50 - i}` },
          `ERROR: No matching distribution for foo==${50 - i}`,
          true
        ),
      (i) =>
        ran("log_in", { password: settings[i % 16] }, `wrong password, access denied, ${40 - i} left`, true)
    ]
    for (const error of errors)
      isStopped(
        rounds(30, (i) => [error(i)]),
        10
      )
  })

  it("is an edit that fails at length, and text that grows where it stands", () => {
    const long = `Error: the old text was not found. ${"Look at the file again, and give the lines as they are there. ".repeat(3)}`
    const edit = (i: number, before: string, after: string, result: string) =>
      ran("edit_file", { path: `a${i}.ts`, old_string: before, new_string: after }, result)
    isStopped(
      rounds(30, (i) => [edit(i, `${settings[i % 16]}(a)`, `${settings[i % 16]}(b)`, long)]),
      10
    )
    isStopped(
      rounds(20, (i) => [edit(1, `t = 1${"0".repeat(i)}`, `t = 1${"0".repeat(i + 1)}`, "done")]),
      7
    )
  })

  it("is a search beside a command that sleeps", () => {
    isStopped(
      rounds(40, (i) => [
        { ...ran("bash", { command: "sleep 1; ls" }, "a.ts b.ts"), turn: i },
        { ...ran("grep", { pattern: "foo" }, "no matches"), turn: i }
      ]),
      30
    )
  })
})

describe("rounds of waiting", () => {
  it("may ask many at once: all of them are waited for, and each turns in its time", () => {
    const servers = ["1.1.1.1", "8.8.8.8", "9.9.9.9", "64.6.64.6", "84.200.69.80", "208.67.222.222"]
    const address = (isNew: boolean) => (isNew ? "198.51.100.24" : "203.0.113.80")
    const asks = (round: number, n: number) => ({
      ...ran("dig", { name: "www.acme.example", server: servers[n] }, address(n < round)),
      turn: 2 * round + 1
    })
    const waits = (round: number) => ({ ...ran("sleep", { seconds: 120 }, ""), turn: 2 * round })
    runsOn(rounds(7, (round) => [waits(round), ...servers.map((_, n) => asks(round, n))]))
    isStopped(
      rounds(20, (round) => [
        waits(round),
        ...servers.map((_, n) => ({ ...asks(1, n), turn: 2 * round + 1 }))
      ]),
      80
    )
  })

  it("are told by what is pending, also where that is a part of a word", () => {
    assert.isTrue(read({ status: "PENDING_VALIDATION" }).waiting)
    assert.isTrue(read("status: queued_for_review").waiting)
    assert.isFalse(read({ status: "VALIDATED_PENDING" }).waiting)
    const looks = ran("describe_cert", { arn: "cert/5b1e" }, { status: "PENDING_VALIDATION" })
    runsOn([...rounds(7, () => [looks]), ran("describe_cert", { arn: "cert/5b1e" }, { status: "ISSUED" })])
  })

  it("go on page by page in other languages", () => {
    const next = random(23)
    const titles = "Rosenbuch Flora Moose Farne Algen Pilze".split(" ")
    const shows = (n: number) =>
      [`Seite ${n} von 30`]
        .concat(Array.from({ length: 7 }, () => `${titles[next(6)]}, ${next(4)}. Aufl., ${next(99)},00 EUR`))
        .join("\n")
    runsOn(
      rounds(30, (n) => [
        ran("browser_click", { selector: "a.next" }, "clicked"),
        ran("browser_text", { selector: "#list" }, shows(n))
      ])
    )
    assert.strictEqual(read("15 mit 30").counted, 0)
  })
})

describe("names", () => {
  it("of what a caller makes up, of clocks and of what is left of a limit", () => {
    assert.strictEqual(Volatile.whereNamed("client_nonce"), "anywhere")
    for (const name of ["age_s", "x-runtime", "x_ratelimit_remaining", "wait_secs", "ms"])
      assert.strictEqual(Volatile.whereNamed(name), "result", name)
    assert.isUndefined(Volatile.whereNamed("rows"))
  })

  it("of units: minutes are no millions", () => {
    assert.isTrue(Volatile.inResult("31.6m"))
    assert.isFalse(Volatile.inResult("31.6M"))
  })

  it("of tools that replace what they find, and of those that ask a name server", () => {
    assert.strictEqual(
      ToolNature.of("search_replace", { file_path: "a", old_string: "b", new_string: "c" }),
      "act"
    )
    assert.strictEqual(ToolNature.of("dig", { name: "a.example" }), "read")
    const edit = (i: number) =>
      ran(
        "search_replace",
        { file_path: "fr.json", old_string: `"${settings[i]}": "a"`, new_string: `"${settings[i]}": "b"` },
        "The file was updated."
      )
    runsOn(rounds(16, (i) => [edit(i)]))
  })
})

describe("a command of a tool that runs things", () => {
  it("is a shell's", () => {
    assert.strictEqual(ToolNature.of("run", { cmd: "sleep 15" }), "pause")
    assert.strictEqual(ToolNature.of("ssh.run", { host: "a", cmd: "uptime -p && cat /etc/release" }), "read")
    assert.strictEqual(ToolNature.of("execute", { command: "npm install" }), "act")
    assert.strictEqual(ToolNature.of("run_job", { job: "ls" }), "act")
    assert.isTrue(pausesFirst("run", { cmd: "sleep 5; dig x" }))
    assert.strictEqual(ToolNature.of("execute_browser", { command: "screenshot" }), "read")
    assert.strictEqual(ToolNature.of("resolve_issue", { id: 7 }), "act")
    // Word by word, and given to a shell.
    assert.strictEqual(ToolNature.of("shell", { command: ["wc", "-c", "a.ts"] }), "read")
    assert.strictEqual(ToolNature.of("shell", { command: ["rm", "-c", "ls"] }), "act")
    assert.strictEqual(ToolNature.of("shell", { command: ["/bin/bash", "-l", "-c", "ls"] }), "read")
    assert.strictEqual(ToolNature.of("kubectl", { args: ["get", "node", "worker-05"] }), "read")
    assert.strictEqual(ToolNature.of("kubectl", { args: ["drain", "worker-05"] }), "act")
    assert.strictEqual(ToolNature.of("shell", { command: ["bash", "-lc", "cat a.ts"] }), "read")
    assert.strictEqual(ToolNature.of("shell", { command: ["bash", "-lc", "npm test"] }), "act")
    assert.strictEqual(ToolNature.of("exec", { command: ["sleep", "30"] }), "pause")
    assert.isFalse(pausesFirst("run_job", { job: "sleep 5; dig x" }))
  })

  it("may be asked again after a pause, for a while", () => {
    const looks = ran("run", { cmd: "dig +short shop.example" }, "198.51.100.7")
    const waits = (seconds: number) => ran("run", { cmd: `sleep ${seconds}` }, "")
    runsOn([
      ...rounds(6, (i) => [looks, waits(15 * 2 ** i)]),
      ran("run", { cmd: "dig +short shop.example" }, "203.0.113.40")
    ])
    isStopped(
      rounds(20, () => [looks, waits(15)]),
      18
    )
  })
})

describe("a number in a path", () => {
  it("is none of so many", () => {
    assert.strictEqual(read("in /tmp/pytest-212/lib").counted, 0)
    assert.notStrictEqual(read("12/40 done").counted, 0)
  })
})

describe("a session's id in an address", () => {
  it("makes it no other", () => {
    const asks = (id: string) =>
      ran("fetch", { url: `https://a.example/reports;jsessionid=${id}?month=3` }, "Sign in\nE-mail\nPassword")
    const next = random(9)
    isStopped(
      rounds(20, () => [asks(`${next(1e6).toString(16)}C867BBCBC24A`.toUpperCase())]),
      6
    )
  })
})
