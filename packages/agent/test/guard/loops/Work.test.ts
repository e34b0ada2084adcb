/** Long work that looks like a loop, and next to each the loop that it looks like. Through the detector's own door. */
import { assert, describe, it } from "@effect/vitest"
import * as ToolNature from "@outlast/agent/guard/loops/ToolNature"
import { isStopped, ran, random, read, rounds, runsOn } from "./support.ts"

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

describe("a list", () => {
  const page = (name: string) => `https://docs.acme.dev/guide/${name}`
  const missing = (name: string) => ran("fetch", { url: page(name) }, "HTTP 404 Not Found", true)
  const found = (name: string, minutes: number) =>
    ran(
      "fetch",
      { url: page(name) },
      `<title>${name}</title><h1>${name}</h1><p>Since v3. ${minutes} min read.</p>`
    )

  it("may have many things that fail, if some go well", () => {
    const next = random(3)
    const name = (i: number) => `${settings[i % 16]}-${settings[(i >> 4) + 3]}`
    runsOn(rounds(90, (i) => [i % 9 > 2 && next(10) < 3 ? missing(name(i)) : found(name(i), next(20))]))
    // Some in a row.
    runsOn(rounds(40, (i) => [i > 10 && i % 10 < 6 ? missing(name(i)) : found(name(i), next(20))]))
    // Where none is there, somebody guesses.
    isStopped(
      rounds(40, (i) => [missing(name(i))]),
      8
    )
  })

  it("of parts of time goes on where the last one ended, with nothing in many of them", () => {
    const day = (i: number) => `2026-04-${String(1 + (i % 28)).padStart(2, "0")}T00:00:00Z`
    const asks = (i: number, j: number, result: string) =>
      ran("query_events", { from: day(i), to: day(j) }, result)
    const next = random(5)
    runsOn(rounds(27, (i) => [asks(i, i + 1, i % 3 > 0 ? "0 rows" : `1 row, count=${next(900)}`)]))
    isStopped(
      rounds(27, (i) => [asks(i % 2, (i % 2) + 1, "0 rows")]),
      12
    )
  })

  it("of pages tells of what was asked about, in words that are known", () => {
    const text = (name: string, of: string) =>
      `<html><head><title>${name} | Gateway</title></head><body><h1>${name}</h1><p>${of} from here on.</p><a>guide</a></body>`
    const since = ["Since", "Available", "Changed"]
    const asks = (name: string, result: string) => ran("fetch", { url: page(name) }, result)
    runsOn([
      ...since.map((of, i) => asks(`v${i}`, text("Gateway", of))),
      ...rounds(16, (i) => [asks(settings[i] ?? "", text(settings[i] ?? "", since[(i * i) % 3] ?? ""))])
    ])
    isStopped(
      rounds(16, (i) => [asks(settings[i] ?? "", text("Not this one", "Moved"))]),
      12
    )
  })
})

describe("a command of a tool that runs things", () => {
  it("is a shell's", () => {
    assert.strictEqual(ToolNature.of("run", { cmd: "sleep 15" }), "pause")
    assert.strictEqual(ToolNature.of("ssh.run", { host: "a", cmd: "uptime -p && cat /etc/release" }), "read")
    assert.strictEqual(ToolNature.of("execute", { command: "npm install" }), "act")
    assert.strictEqual(ToolNature.of("run_job", { job: "ls" }), "act")
    assert.isTrue(ToolNature.pausesFirst("run", { cmd: "sleep 5; dig x" }))
    assert.isFalse(ToolNature.pausesFirst("run_job", { job: "sleep 5; dig x" }))
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
