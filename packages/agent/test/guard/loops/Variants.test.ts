/**
 * What varies from call to call and brings nothing, and next to it the work that varies in the same way. Through the
 * detector's own door.
 */
import { assert, describe, it } from "@effect/vitest"
import { LoopDetector } from "@outlast/agent"
import { isStopped, ran, rounds, runsOn } from "./support.ts"

const detector = LoopDetector.make()
const words =
  "amber birch cedar delta ember fjord grove heron inlet jetty knoll larch maple north ocean pearl".split(" ")
const word = (i: number): string => words[i % words.length] ?? ""

describe("an error", () => {
  const told = (file: string, took: number) =>
    `FAIL src/cart/total.spec.ts\n  ✕ rounds to cents (${took} ms)\n  ✓ empty cart\n\n  ● rounds to cents\n\n    Expected: 0.3\n    Received: 0.30000000000000004\n\n      at Object.<anonymous> (src/cart/${file}:4:42)\n\nTests: 1 failed, 1 passed, 2 total`
  const flags = [
    "",
    "--verbose",
    "--no-cache",
    "total.spec.ts",
    "-t 'rounds to cents'",
    "--runInBand",
    "--ci"
  ]

  it("is the same whatever of it was asked this time", () => {
    isStopped(
      rounds(14, (i) => [
        ran(
          "Bash",
          { command: `npx jest src/cart ${flags[i % 7]}` },
          told("total.spec.ts", 3 + (i % 5)),
          true
        )
      ]),
      8
    )
  })

  it("does not begin anew with what a flag says beside it", () => {
    const failure =
      "FAILURE: Build failed.\n> Failed to read key upload from the store: keystore password was incorrect"
    const beside = (i: number) => (i % 3 === 2 ? `Stopping ${word(i)} daemon\n${word(i + 1)} stopped\n` : "")
    isStopped(
      rounds(16, (i) => [
        ran("terminal", { cmd: `./gradlew :app:bundle --${word(i)}` }, `${beside(i)}${failure}`, true)
      ]),
      12
    )
  })

  it("comes from the same, whoever says so", () => {
    const full = (program: string) =>
      `${program}: cannot ${word(program.length)} '/mnt/v/a.dump': Read-only file system`
    const programs = ["cp", "rsync", "install", "touch", "dd", "mkdir", "tee", "chmod", "mv", "ln"]
    isStopped(
      programs.map((program) =>
        ran("run_command", { command: `${program} a.dump /mnt/v/` }, full(program), true)
      ),
      9
    )
    const causes = words.map((one) => `cp: cannot create regular file: no ${one} on the ${one} device`)
    runsOn(
      causes
        .slice(0, 8)
        .map((cause, i) => ran("run_command", { command: `cp ${word(i + 9)} /mnt` }, cause, true))
    )
  })
})

describe("a look", () => {
  it("has the same page when the server does not go on", () => {
    const page = "total 212 " + words.map((one, i) => `${one} ${word(i + 3)} Ltd`).join(", ")
    const get = (i: number, result: string) =>
      ran("http_request", { method: "GET", url: `https://crm.test/lists/15?limit=5&page=${i}` }, result)
    isStopped(
      rounds(14, (i) => [get(i + 2, page)]),
      9
    )
    runsOn(
      rounds(14, (i) => [get(i + 2, `page ${i + 2}: ${word(i)}-${i}, ${word(i + 1)}-${i}, item-${900 + i}`)])
    )
  })

  it("that waits for something may come back with nothing, longer", () => {
    const mail = (messages: ReadonlyArray<unknown>, wait?: number) =>
      ran("mailbox_latest", { account: "a@b.test", wait_s: wait }, { messages })
    const empty = rounds(6, () => [mail([], 20)])
    runsOn([...empty, mail([{ subject: "Your code is 481920" }], 20)])
    isStopped([...empty, ...empty], 8)
    isStopped(
      rounds(8, () => [mail([])]),
      6
    )
  })

  it("with another caption is the same", () => {
    isStopped(
      rounds(12, (i) => [
        ran(
          "Bash",
          { command: "python -m pytest -q", description: `Check ${word(i)} again` },
          "142 passed in 3 s"
        ),
        ran("Bash", { command: "git status" }, "nothing to commit, working tree clean")
      ]),
      8
    )
    // Where it is no caption, it is what is written.
    runsOn(
      rounds(12, (i) => [ran("create_ticket", { description: `${word(i)} is broken` }, { id: 100 + i })])
    )
  })

  it("says that there is nothing, in other languages too", () => {
    const search = (tool: string, field: string, nothing: string) =>
      rounds(16, (i) => [ran(tool, { [field]: `${word(i)} rechnung ${word(i + 5)}` }, nothing)])
    isStopped(
      search("juris_suche", "frage", 'Treffer: 0\nIhre Suche ergab keine Ergebnisse in der Auswahl "BGH".'),
      9
    )
    isStopped(search("buscar_documentos", "consulta", "No hay ningún resultado para esta consulta."), 9)
    isStopped(search("recherche", "requete", "Aucun résultat."), 9)
  })

  it("that finds the same one has found nothing new, however well it fits", () => {
    const hit = (i: number) => ({
      hits: [{ id: "KB-118", title: "Exporting reports", score: 7 + ((i * 7) % 10) / 13 }]
    })
    const article =
      "Open Reports > Export. Formats: CSV, XLSX. Scheduled export is described in the handbook."
    isStopped(
      rounds(9, (i) => [
        ran("kb_search", { text: `${word(i)} the ${word(i + 4)} of export` }, hit(i)),
        ran("kb_open", { id: "KB-118" }, article)
      ]),
      17
    )
    // What is measured is no hit.
    runsOn(rounds(12, (i) => [ran("get_model", { epoch: i }, { score: 0.4 + i / 40 })]))
  })

  it("that brings none of several things has found nothing", () => {
    const searches = (nothing: string) =>
      rounds(14, (i) => [ran("mail_search", { q: `${word(i)} ${word(i + 5)} 7718` }, nothing)])
    isStopped(searches("0 messages"), 10)
    isStopped(searches("no tickets"), 10)
  })

  it("that brings a state and an empty list has found nothing", () => {
    const query = (i: number) => ({ query: `latency_${word(i)}{job="${word(i + 2)}"} offset` })
    const none = { status: "success", data: { resultType: "vector", result: [] } }
    isStopped(
      rounds(14, (i) => [ran("prometheus_query", query(i), none)]),
      10
    )
  })

  it("fails and goes well by turns, with nothing done about it", () => {
    const pods = (i: number) =>
      `worker 0/1 ${i % 2 === 0 ? "CrashLoopBackOff" : "Error"} ${2 + (i >> 2)} restarts\napi 1/1 Running 0`
    isStopped(
      rounds(30, (i) => [ran("kubectl", { command: "get pods -n payments" }, pods(i))]),
      20
    )
  })
})

describe("a number", () => {
  const comment = { id: 48_213, body: "Please ask logistics for the tracking number." }
  const ticket = (count: number) => ({
    id: 48_213,
    status: "open",
    priority: "normal",
    asked: "r.hofstetter@shop.test",
    comment_count: count
  })

  it("that counts what is done again is no progress", () => {
    isStopped(
      rounds(10, (i) => [
        ran("add_comment", comment, { ok: true }),
        ran("get_ticket", { id: 48_213 }, ticket(i + 1)),
        ran("list_macros", { category: "shipping" }, ["Shipping: tracking", "Shipping: search"])
      ]),
      13
    )
    // What is done is another each time.
    runsOn(
      rounds(10, (i) => [
        ran("add_comment", { ...comment, body: `Page ${i} of the ${word(i)} file` }, { ok: true }),
        ran("get_ticket", { id: 48_213 }, ticket(i + 1))
      ])
    )
  })

  it("of a cell that is run again counts the runs", () => {
    const table = words.map((one, i) => `${i} ${900_001 + i} ${one} ${i % 7} 189.0`).join("\n")
    isStopped(
      rounds(8, (i) => [ran("execute_cell", { source: "df.head()" }, `[${10 + i}] (0.${i}2s)\n${table}`)]),
      5
    )
  })

  it("in the name of a file measures nothing", () => {
    const scene = { scene: "cave_01" }
    isStopped(
      rounds(8, (i) => [
        ran("render_preview", scene, { image: `/tmp/prev_${i}.png`, mean_luma: 0.071, clipped: 61.4 }),
        ran("open_scene", scene, { ok: true, nodes: 148 }),
        ran("set_property", { path: "Torch", property: "energy", value: 1.2 }, { ok: true }),
        ran("save_scene", {}, { ok: true, warning: "override of a locked node was dropped" })
      ]),
      19
    )
  })

  it("at the end of a bar is no waiting", () => {
    isStopped(
      rounds(8, () => [
        ran("bash", { command: "df -h /var --output=pcent" }, "100%"),
        ran("bash", { command: "cat /etc/hostname" }, "edge-03 is the one")
      ]),
      8
    )
  })

  it("of rows that are taken each time is the next rows", () => {
    const purge = ran(
      "sql",
      {
        q: "WITH d AS (DELETE FROM clicks WHERE ts < '2023-01-01' LIMIT 5000 RETURNING id) SELECT count(*) deleted FROM d"
      },
      [{ deleted: 5_000 }]
    )
    runsOn(rounds(24, () => [purge]))
  })
})

describe("work that only looks like noise", () => {
  const edit = (i: number) =>
    ran(
      "edit_file",
      { path: "status-page", old_string: `${word(i)} ${i}`, new_string: `${word(i + 1)} ${i + 1}` },
      "ok"
    )

  it("differs in what it is described by", () => {
    const describing = (tool: string, field: string, args: object) =>
      rounds(12, (i) => [
        ran(tool, { ...args, [field]: `The ${word(i)} of the ${word(i + 5)} is off` }, "created")
      ])
    runsOn(describing("create_ticket", "description", { source: "audit", title: "Finding" }))
    runsOn(describing("create_product", "description", { code: "A-17" }))
    runsOn(describing("issue_tool", "comment", { command: "comment" }))
  })

  it("acts on several things", () => {
    runsOn(rounds(8, (i) => [edit(i), ran("format_files", { path: "a.ts" }, "formatted")]))
    isStopped(
      rounds(8, () => [ran("cancel_orders", { id: 7 }, "done")]),
      3
    )
  })

  it("brings what is edited to where it runs", () => {
    runsOn(rounds(8, (i) => [edit(i), ran("argocd", { args: "app sync status-page" }, "synced")]))
  })

  it("gets on by one", () => {
    const step = (act: string, look: string, shown: (i: number) => unknown) =>
      rounds(10, (i) => [ran(act, { by: "one" }, { ok: true }), ran(look, {}, shown(i))])
    runsOn(step("add_to_cart", "view_cart", (i) => ({ items: i + 1 })))
    runsOn(step("scale_up", "list_pods", (i) => ({ ready: 3 + i })))
    runsOn(step("process_one", "get_queue", (i) => ({ done: 5 + i })))
  })

  it("goes through what an address says", () => {
    runsOn(
      rounds(12, (i) => [
        ran(
          "http_get",
          { url: `https://a.test/trains?from=80${i}10&to=10115` },
          "There are no trains at this hour of the day."
        )
      ])
    )
  })

  it("measures how long a text is", () => {
    runsOn(
      rounds(10, (i) => [edit(i), ran("count_tokens", { file: "prompt.md" }, { tokens: 4_120 - 97 * i })])
    )
    runsOn(rounds(8, (i) => [ran("read_gauge", { id: 4 }, `[${400 - 17 * i}]`)]))
  })

  it("is under way at 100 %", () => {
    runsOn(rounds(7, () => [ran("get_job", { id: 4 }, "running, GPU 100%")]))
  })

  it("finds nothing wrong", () => {
    runsOn(rounds(12, (i) => [ran("scan_package", { query: word(i) }, { clean: true, findings: [] })]))
  })
})

describe("a cycle", () => {
  const round = [
    ran("git_shell", { command: "git stash" }, "Saved the directory and index state on main"),
    ran(
      "git_shell",
      { command: "git pull --rebase" },
      "CONFLICT in src/a.ts\nerror: could not apply the commit",
      true
    ),
    ran("git_shell", { command: "git rebase --abort" }, ""),
    ran("git_shell", { command: "git stash pop" }, "On branch main\nDropped refs/stash@{0}")
  ]

  it("begins with its first round", () => {
    isStopped(
      rounds(5, () => round),
      10
    )
  })

  it("of two or three is told before it is stopped", () => {
    const a = ran("read_file", { path: "a.ts" }, "export const amber = true")
    const b = ran("read_file", { path: "b.ts" }, "export const birch = true")
    let state = LoopDetector.initial(detector)
    const verdicts = rounds(4, () => [a, b]).map((step, turn) => {
      const verdict = LoopDetector.before(detector, state, { turn, ...step })
      state = LoopDetector.observe(detector, state, { turn, ...step })
      return verdict._tag
    })
    assert.deepStrictEqual(verdicts.slice(0, 7), ["Ok", "Ok", "Ok", "Ok", "Nudge", "Nudge", "Block"])
  })
})

describe("parts", () => {
  it("that begin where the last one ended are the next ones, whatever is in them", () => {
    const day = (i: number) => `2026-01-${String(i + 1).padStart(2, "0")}`
    runsOn(rounds(28, (i) => [ran("get_log", { from: day(i), to: day(i + 1) }, "no entries")]))
    runsOn(
      rounds(28, (i) => [ran("get_rows", { from_id: 100 + 50 * i, to_id: 150 + 50 * i }, { items: [] })])
    )
  })
})

describe("pages", () => {
  const page = (i: number) => ran("get_page", { page: i }, `Page ${i} of 30\nNo flagged items on this page.`)

  it("go on while there are more, whatever is on them", () => {
    runsOn(rounds(28, (i) => [page(i + 1)]))
    isStopped(
      rounds(28, (i) => [page(31 + i)]),
      8
    )
  })
})

describe("a plan", () => {
  it("is no deed, however it is put", () => {
    isStopped(
      rounds(16, (i) => [
        ran(
          "write_plan",
          { title: "Cleanup", steps: [`${word(i)} first`, `then ${word(i + 3)}`] },
          `plan saved (version ${i + 2}), 0 of 3 steps done`
        )
      ]),
      12
    )
  })
})

describe("what was done since", () => {
  it("lets the same be tried again", () => {
    const bench = ran("Bash", { command: "python3 bench.py" }, "best of 3: same as ever")
    const edit = (i: number) =>
      ran("Edit", { file_path: "count.py", old_string: word(i), new_string: word(i + 1) }, "updated")
    runsOn([edit(0), edit(1), bench, bench, bench, edit(2), bench])
    isStopped([bench, bench, bench, bench], 3)
  })

  it("with a file counts under whatever path", () => {
    const edit = (path: string, from: string, to: string) =>
      ran("edit_file", { path, old_string: from, new_string: to }, "updated")
    const paths = ["src/a.ts", "./src/a.ts", "src//a.ts", "src/lib/../a.ts"]
    isStopped(
      rounds(20, (i) => [
        edit(paths[i % 4] ?? "", i % 2 === 0 ? "amber" : "birch", i % 2 === 0 ? "birch" : "amber"),
        ran(
          "read_file",
          { path: `src/${word(i)}-${i}.ts` },
          `export const ${word(i)}${i} = "${word(i + 7)}-${i}"`
        )
      ]),
      20
    )
  })

  it("by a request is no edit of a file", () => {
    const settings = (on: boolean) =>
      ran(
        "es",
        { method: "PUT", path: "/_cluster/settings", body: { allocation: on ? "all" : "none" } },
        { ok: true }
      )
    runsOn(
      rounds(8, (i) => [
        settings(false),
        ran("restart_node", { node: `${word(i)}-${i}` }, `${word(i)}-${i} is back, version 8.${i}`),
        settings(true)
      ])
    )
  })
})

describe("ids of a trace", () => {
  it("make no other call", () => {
    isStopped(
      rounds(8, (i) => [
        ran(
          "get_order",
          {
            id: 7,
            headers: { traceparent: `00-${i}af7651916cd43dd8448eb211c80319c-b7ad6b716920333${i}-01` }
          },
          "open"
        )
      ]),
      6
    )
  })
})
