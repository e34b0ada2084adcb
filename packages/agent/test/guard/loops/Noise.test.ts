/** What differs from call to call and is no progress; and what looks the same and is. Through the detector's own door. */
import { assert, describe, it } from "@effect/vitest"
import * as FileEdit from "@outlast/agent/guard/loops/FileEdit"
import * as ToolNature from "@outlast/agent/guard/loops/ToolNature"
import { isStopped, pausesFirst, ran, random, rounds, runsOn } from "./support.ts"

describe("numbers", () => {
  it("that move by chance are no progress, however many there are", () => {
    for (const seed of [1, 2, 3, 4, 5]) {
      const next = random(seed)
      const pose = () => `x ${next(900) / 100} y ${next(900) / 100} yaw ${next(90) / 100}`
      isStopped(
        rounds(30, () => [ran("drive_to", { x: 3, y: 7 }, `error: no path to the goal, at ${pose()}`, true)]),
        12
      )
    }
  })

  it("that count the calls of the tool are none, whatever else is called meanwhile", () => {
    isStopped(
      rounds(20, (i) => [
        ran("execute_code", { code: "df['Month']" }, `In [${2 * i + 3}]\nKeyError: 'Month'`, true),
        ran("execute_code", { code: "df.columns" }, `In [${2 * i + 4}]\nIndex(['Date', 'Sum'])`)
      ]),
      16
    )
  })

  it("that a click moves on by one are pages, or days", () => {
    const day = (i: number) =>
      `heading "${["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"][i % 7]} ${i + 1} June"`
    const page = (i: number) =>
      `clicked\n${day(i)}\nNo appointments on this day, choose another one\nbutton "Next day"`
    runsOn(rounds(14, (i) => [ran("click", { uid: "7_12" }, page(i))]))
    isStopped(
      rounds(20, () => [ran("click", { uid: "7_12" }, page(3))]),
      6
    )
  })

  it("of errors are progress when they go down, or when something else was tried", () => {
    runsOn(rounds(30, (i) => [ran("bash", { command: "make check" }, `${40 - i} errors left`, true)]))
    isStopped(
      rounds(20, (i) => [
        ran("bash", { command: "helm upgrade x" }, `Error: upgrade failed, revision ${30 + 2 * i}`, true),
        ran("bash", { command: "helm rollback x" }, "Rollback was a success")
      ]),
      16
    )
  })
})

describe("how far away something is", () => {
  const polls = (status: (i: number) => object) =>
    rounds(25, (i) => [ran("replication_status", { host: "pg-b" }, { state: "catchup", ...status(i) })])

  it("is no clock, though it is in seconds", () => {
    runsOn(polls((i) => ({ lag_seconds: 5_400 - 200 * i, at: `2026-07-07T22:${10 + i}:00Z` })))
    runsOn(polls((i) => ({ Seconds_Behind_Master: 900 - 31 * i })))
    isStopped(
      polls((i) => ({ lag_seconds: 5_400, uptime_seconds: 5_400 - 200 * i })),
      9
    )
  })

  it("but what is left of a rate limit says nothing", () => {
    isStopped(
      polls((i) => ({ status: "queued", rate_limit_remaining: 4_900 - 3 * i })),
      9
    )
  })
})

describe("words with digits", () => {
  const words =
    "contract handbook payroll invoice vendor partner laptop badge garage canteen parking visitor".split(" ")

  it("that a server makes up measure nothing", () => {
    const next = random(7)
    const hex = () => `${next(10)}${"abcdef"[next(6)]}${next(10)}${"abcdef"[next(6)]}${next(10)}`
    const link = (id: string) => ({
      size: 0,
      results: [],
      _links: { self: `https://wiki/search?start=0&${id}` }
    })
    const searches = (id: () => string) =>
      rounds(30, (i) => [
        ran(
          "wiki_search",
          { space: "OPS", cql: `text ~ "${words[i % 12]} ${words[(5 * i + 1) % 12]}"` },
          link(id())
        )
      ])
    isStopped(
      searches(() => `view=${hex()}`),
      20
    )
    isStopped(
      searches(() => `rid=${next(1_000_000)}`),
      20
    )
  })

  it("that have one number are things", () => {
    const found = (i: number) => ({ total: 1, rows: [{ record: `B${300 + 17 * i}/1903`, place: "Herne" }] })
    runsOn(words.map((word, i) => ran("archive_search", { surname: word, year: 1_903 }, found(i))))
  })

  it("that sign a call make it no other", () => {
    const next = random(3)
    const signature = () => next(0x7fff_ffff).toString(16).padStart(8, "a")
    isStopped(
      rounds(12, () => [
        ran("get_quote", { isin: "DE0007164600", signature: signature() }, { last: 261.35, market: "closed" })
      ]),
      5
    )
  })
})

describe("what a request says of itself", () => {
  const next = random(5)
  const hex = (length: number) => Array.from({ length }, () => "0123456789abcdef"[next(16)]).join("")
  const gets = (args: () => object, result: () => unknown) =>
    rounds(20, () => [ran("http", { url: "https://kyc.example/v1/dossiers/ds_8812", ...args() }, result())])
  const answer = { state: "needs_document", missing: ["proof_of_address"] }

  it("in its headers makes it no other", () => {
    isStopped(
      gets(
        () => ({ headers: { "X-Trace": hex(16), "x-amzn-trace-id": `1-${hex(8)}-${hex(24)}` } }),
        () => answer
      ),
      8
    )
    isStopped(
      gets(
        () => ({ session: hex(6), client_ref: hex(8), req_ts: 1_741_431_798_001 + next(900) }),
        () => answer
      ),
      8
    )
  })

  it("who answered it, and how often it was asked, is nothing new", () => {
    isStopped(
      gets(
        () => ({}),
        () => ({ ...answer, server: `app-${next(9)}`, rev: next(9_000) })
      ),
      8
    )
    isStopped(
      rounds(20, () => [
        ran(
          "bash",
          { command: "nginx -s reload" },
          `[notice] ${3_000 + next(9_000)}#0: signal process started`
        )
      ]),
      8
    )
  })

  it("what is left of its rate, beside what it says, is none", () => {
    const review = (more: object) =>
      rounds(20, () => [ran("get_pull_request", { number: 812 }, { number: 812, state: "open", ...more })])
    let left = 4_900
    isStopped(
      rounds(20, () => [
        ran(
          "get_pull_request",
          { number: 812 },
          { number: 812, state: "open", _rate: { remaining: --left, requestId: hex(12) } }
        )
      ]),
      6
    )
    isStopped(review({ _rate: { remaining: 7 } }), 6)
  })

  it("a token for the next page of the same page is none", () => {
    const rows = ["Arden", "Bolt", "Crane", "Duna"].map((supplier, i) => ({ po: `P-200${i}`, supplier }))
    let after = hex(22)
    isStopped(
      rounds(20, () => {
        const args = { entity: "orders", size: 4, after }
        after = `${hex(10)}QxZ${hex(10)}`
        return [
          ran("erp_list", args, {
            items: rows,
            next: after,
            request: hex(12),
            generated_at: `2026-03-11T09:${10 + next(49)}:17Z`,
            db_ms: next(30)
          })
        ]
      }),
      10
    )
  })
})

describe("hits of a search", () => {
  const next = random(11)
  const words = "watch esim phone transfer plan number device line swap move wearable handset".split(" ")
  const hits = (titles: ReadonlyArray<string>) => ({
    hits: titles.map((title, i) => ({ id: 900 + i, title, score: next(1_000) / 1_000 }))
  })

  it("are not new when they fit better or worse", () => {
    isStopped(
      rounds(30, (i) => {
        const query = `${words[i % 12]} ${words[(5 * i + 1) % 12]} ${words[(7 * i + 3) % 12]}`
        return [ran("kb_search", { query }, { query, ...hits(["Unlock it", "Roaming prices"]) })]
      }),
      16
    )
  })

  it("are none, however much was looked through", () => {
    const searches = rounds(30, (i) => [
      ran(
        "loki_search",
        { query: `{app="checkout"} |= "${words[i % 12]} ${words[(5 * i + 1) % 12]}"`, since: "24h" },
        {
          stats: { bytesProcessed: 7_000_000 + next(90_000_000), execTime: next(2_000) / 1_000 },
          streams: []
        }
      )
    ])
    isStopped(searches, 14)
  })

  it("but a score that is not one of several is what one wants to know", () => {
    runsOn(rounds(20, (i) => [ran("audit_page", { url: "https://shop" }, { score: 0.4 + i / 50 })]))
  })
})

describe("a name that the caller makes up for a run", () => {
  const runs = (args: (id: string) => object) =>
    rounds(20, (i) => [
      ran("run_query", args(`agent_${(97_213 * (i + 3)).toString(36)}`), [
        { reason: "SIZE", n: 9_120 },
        { reason: "LATE", n: 1_200 }
      ])
    ])

  it("is none of what it runs, but of what is asked about a run", () => {
    isStopped(
      runs((id) => ({ sql: "SELECT reason, COUNT(*) AS n FROM returns GROUP BY 1", job_id: id })),
      5
    )
    runsOn(runs((id) => ({ job_id: id })))
  })
})

describe("a write", () => {
  const update = (sql: string, tool = "psql") => ran(tool, { sql }, "UPDATE 20000")
  const left = (i: number) =>
    ran("psql", { sql: "select count(*) from t where b is null" }, `${900 - 40 * i}`)

  it("to some of many rows does it to the next ones", () => {
    const batch =
      "with some as (select id from t where b is null limit 20000) update t set b = 1 from some where t.id = some.id"
    runsOn(rounds(8, (i) => [...rounds(6, () => [update(batch)]), left(i)]))
    // Whatever the tool is called.
    runsOn(rounds(8, (i) => [...rounds(6, () => [update(batch, "execute")]), left(i)]))
    // Whatever it says of them.
    const wipes = ran(
      "sql",
      { q: "DELETE FROM audit WHERE ts < '2024' LIMIT 5000" },
      "Query OK, 5000 rows affected"
    )
    runsOn(rounds(8, (i) => [...rounds(5, () => [wipes]), left(i)]))
    // Nobody looks how many are left.
    isStopped(
      rounds(12, () => [update(batch)]),
      8
    )
  })

  it("that takes something out of the way takes other things when it is made again", () => {
    const wipes = (deleted: number) =>
      ran(
        "es_request",
        { method: "POST", path: "/logs-2021/_delete_by_query?max_docs=10000" },
        { deleted, failures: [] }
      )
    runsOn(rounds(8, (i) => [...rounds(6, () => [wipes(10_000)]), left(i)]))
    runsOn(rounds(24, () => [wipes(10_000)]))
    // Nobody looks how many are left.
    isStopped(
      rounds(60, () => [wipes(10_000)]),
      40
    )
    isStopped(
      rounds(24, () => [wipes(0)]),
      5
    )
  })

  it("to all of them does the same again", () => {
    isStopped(
      rounds(12, () => [update("with old as (select 1) update t set b = 1")]),
      3
    )
  })
})

describe("what fails", () => {
  const parts =
    "mailer scheduler pdf search audit webhooks sessions i18n exports cache sockets uploads".split(" ")
  const tries = (result: (i: number) => string) =>
    parts.map((part, i) => ran("bash", { command: `DISABLE=${part} node bench/leak.js` }, result(i), true))

  it("and is measured for one thing after the other is found out about", () => {
    runsOn(tries((i) => `start 41 MB, end ${388 - ((7 * i) % 19)} MB  LEAK`))
    isStopped(
      tries(() => "start 41 MB, end 388 MB  LEAK"),
      8
    )
    isStopped(
      tries((i) => `Error: the heap grew by ${388 - ((7 * i) % 19)} MB`),
      8
    )
  })
})

describe("what is waited for", () => {
  const check = (done: number) =>
    ["lint", "unit", "docs", "e2e", "types"]
      .map((job, i) => `${job}\t${i < done ? "pass" : "pending"}`)
      .join("\n")

  it("gets less, job by job, also in a second round", () => {
    const poll = (done: number) => ran("bash", { command: "gh pr checks 7" }, check(done), done < 5)
    const round = [0, 1, 1, 2, 2, 3, 3, 4, 4].map(poll)
    runsOn([...round, ran("bash", { command: "git push" }, "pushed"), ...round])
  })

  it("may sleep in the command", () => {
    const wait = ran("bash", { command: "sleep 60; host a.example" }, "not yet")
    runsOn(rounds(5, () => [wait]))
    isStopped(
      rounds(20, () => [wait]),
      9
    )
  })
})

describe("what is arranged anew", () => {
  it("is another state of a table that is waited for", () => {
    const state = (pod: number, step: number) =>
      pod > step ? "0/1 Pending old" : pod === step ? "0/1 Creating new" : "1/1 Running new"
    const table = (step: number) =>
      Array.from({ length: 9 }, (_, pod) => `search-${pod} ${state(pod, step)} RESTARTS 0`).join("\n")
    const get = (step: number) => ran("bash", { command: "sleep 45; kubectl -n web get pods" }, table(step))
    runsOn(rounds(10, (i) => [get(i)]))
    isStopped(
      rounds(20, () => [get(4)]),
      9
    )
  })

  it("is a move in a game, though its letters are known", () => {
    const rows = [
      "r n b q k b n r",
      "p p p p p p p p",
      ". . . . . . . .",
      "P P P P P P P P",
      "R N B Q K B N R"
    ]
    const board = (i: number) =>
      rows.map((row, n) =>
        row
          .split(" ")
          .map((piece, file) => (file === (i * 3 + n) % 8 ? "." : piece))
          .join(" ")
      )
    runsOn(
      rounds(8, (i) => [
        ran(
          "chess_move",
          { move: `${"abcdefgh"[i]}2${"abcdefgh"[i]}4` },
          `You moved\n${board(i).join("\n")}\nyour clock runs`
        )
      ])
    )
  })
})

describe("what a call that was made before has made", () => {
  it("is nothing new to ask about", () => {
    const id = (i: number) => `ev${(0x9e37_79b1 * (i + 1)).toString(16)}`
    isStopped(
      rounds(20, (i) => [
        ran("create_event", { title: "sync", start: "14:00" }, { id: id(i), status: "confirmed" }),
        ran("check_conflicts", { event_id: id(i) }, { conflicts: ["Busy at 13:30"] }),
        ran("delete_event", { event_id: id(i) }, { deleted: true })
      ]),
      18
    )
  })

  it("is, where each call asked for something else", () => {
    const id = (i: number) => `or${(0x9e37_79b1 * (i + 1)).toString(16)}`
    runsOn(
      rounds(20, (i) => [
        ran("create_order", { sku: `A-${i}${i}`, count: 1 }, { id: id(i), status: "open" }),
        ran("pay_order", { order_id: id(i) }, { paid: true })
      ])
    )
  })

  it("is the same in a session of a new name, and another about a thing of another name", () => {
    const session = (i: number) => `b1f3963e-11f0-27f7-7670-d252cd9748${10 + i}`
    isStopped(
      rounds(12, (i) => [
        ran("kb_search", { query: "vpn error", session_id: session(i) }, [
          { id: "KB-1120", title: "VPN client" }
        ])
      ]),
      6
    )
    const names = [
      "Vpc",
      "SubnetA",
      "Gateway",
      "NatGateway",
      "SubnetGroup",
      "Database",
      "ParameterGroup",
      "Cluster",
      "Service",
      "Listener"
    ]
    runsOn(
      names.map((name) =>
        ran("describe_events", { stack: "core" }, { LogicalResourceId: name, Status: "CREATE_COMPLETE" })
      )
    )
  })

  it("is no other program when other comments stand before it", () => {
    const run = (i: number) => `5f8a${i}${i}6c-ff9b-00c4-8313-86f8ebdb3583`
    for (const say of [(i: number) => `-- run ${run(i)}\n`, (i: number) => `/* trace=${run(i)} */ `]) {
      isStopped(
        rounds(12, (i) => [
          ran("execute_sql", { sql: `${say(i)}SELECT channel, count(*) FROM sessions GROUP BY 1` }, [
            ["organic", 40_211]
          ])
        ]),
        6
      )
    }
    // But one of its own is.
    runsOn(rounds(9, (i) => [ran("execute_sql", { sql: `-- ${run(i)}` }, `${"abcdefghi"[i]}x`)]))
  })

  it("is told by an id of the caller's making no more than by none", () => {
    isStopped(
      rounds(12, (i) => [
        ran("send_message", { to: "d8", text: "please confirm", client_msg_id: `5f8a7b6c-${i}-4ac1` }, "sent")
      ]),
      4
    )
  })
})

describe("a list", () => {
  it("has an end, and pages behind it are empty", () => {
    const page = (page: number, items: ReadonlyArray<string>) =>
      ran("list_products", { page, per_page: 3 }, { page, total: 6, has_more: false, items })
    isStopped(
      [
        page(1, ["lamp", "desk", "chair"]),
        page(2, ["rug", "shelf", "bowl"]),
        ...rounds(20, (i) => [page(i + 3, [])])
      ],
      15
    )
    runsOn(rounds(30, (i) => [ran("fetch_page", { page: i }, "20 items")]))
  })

  it("of errors is empty when all went well", () => {
    runsOn(
      rounds(30, (i) => [
        ran("set_price", { id: `v${441 + 17 * i}`, price: "34.90" }, { price: "34.90", userErrors: [] })
      ])
    )
  })

  it("may be gone through by several commands each", () => {
    const hosts = ["ams", "ber", "cph", "dub", "edi", "fra", "gva", "hel", "ist"]
    runsOn(
      hosts.flatMap((host) => [
        ran("shell", { command: `kubectl drain ${host}` }, `node/${host} drained`),
        ran("shell", { command: `ssh ${host} apt-get -y upgrade` }, "setting up the kernel, needs a reboot"),
        ran("shell", { command: `ssh ${host} reboot` }, "connection closed by remote host"),
        ran("shell", { command: `kubectl uncordon ${host}` }, `node/${host} uncordoned`)
      ])
    )
  })
})

describe("the same look", () => {
  it("later is the same look: a picture under another name, a log between other times", () => {
    const second = (i: number) => String(10 + 3 * i).padStart(2, "0")
    isStopped(
      rounds(15, (i) => [
        ran("screenshot", { name: `shot-20260102-0304${second(i)}` }, "taken, 1280x800, sha256 7c1e9b0a52d4")
      ]),
      7
    )
    const log = "level=error msg=template missing for order A-2291, mailer gave up after three attempts"
    isStopped(
      rounds(15, (i) => [ran("query_logs", { start: `2026-01-02T03:04:${second(i)}Z`, app: "mailer" }, log)]),
      8
    )
  })

  it("of a log that tells of errors is the next part of it", () => {
    runsOn(
      rounds(30, (i) => [
        ran(
          "read_file",
          { path: "gateway.log", offset: 14 * i, limit: 14 },
          Array.from(
            { length: 6 },
            (_, n) => `16:${10 + i}:0${n}.1 ERROR upstream reset (req a${i}4e${n}556f)`
          ).join("\n")
        )
      ])
    )
  })

  it("of a test run without failures is none of a failure", () => {
    runsOn(
      rounds(12, (i) => [
        ran(
          "shell",
          { command: `npm install ${["zod", "pino", "undici", "sharp", "jose", "dayjs"][i % 6]}@${i}.1` },
          "added"
        ),
        ran("shell", { command: "npm test" }, `tests 64\npass 64\nfail 0\nduration_ms ${2_000 + 37 * i}`)
      ])
    )
  })
})

describe("an edit", () => {
  const of = (args: unknown) => FileEdit.of("edit_file", args)

  it("may be several replacements: what it takes away, and what it brings", () => {
    const edit = (oldText: string, newText: string) => of({ path: "a.md", edits: [{ oldText, newText }] })
    assert.deepStrictEqual(edit("one", "two")?.after, edit("two", "one")?.before)
    assert.notDeepEqual(edit("one", "two")?.after, edit("one", "three")?.after)
    // What only adds replaces nothing.
    assert.isUndefined(edit("", "two"))
    assert.isUndefined(of({ path: "a.md", edits: [] }))
  })

  it("may be a patch: its lines", () => {
    const patch = (out: string, into: string) =>
      `*** Begin Patch\n*** Update File: a.ts\n@@\n same\n-${out}\n+${into}\n`
    const there = FileEdit.of("apply_patch", { input: patch("await f()", "f()") })
    const back = FileEdit.of("apply_patch", { patch: patch("f()", "await f()") })
    assert.deepStrictEqual([there?.path, there?.before, there?.after], ["a.ts", back?.after, back?.before])
    assert.deepStrictEqual(of({ path: "a.ts", diff: "@@ -1 +1 @@\n-await f()\n+f()\n" }), there)
    assert.isUndefined(FileEdit.of("apply_patch", "*** Update File: a.ts\n@@\n+more\n"))
    // A line of it may look like a head; and what is moved is not told.
    const comment = FileEdit.of("apply_patch", patch("-- drop index a", "drop index a"))
    assert.deepStrictEqual(comment?.before, FileEdit.of("apply_patch", patch("x", "-- drop index a"))?.after)
    assert.isUndefined(FileEdit.of("apply_patch", patch("import a", "import a")))
    assert.isUndefined(of({ path: "a.rb", content: "@@count = 0\n" })?.before)
  })

  it("of blanks is one", () => {
    runsOn(
      rounds(9, (i) => [
        ran(
          "edit_file",
          { path: "a.py", old: `return ${"abcdefghi"[i]}`, new: `    return ${"abcdefghi"[i]}` },
          "ok"
        )
      ])
    )
  })

  it("of another place in the same file is another", () => {
    runsOn(
      rounds(20, (i) => [
        ran(
          "edit_file",
          { path: "report.md", edits: [{ oldText: `TODO ${i}`, newText: `done ${i}` }] },
          `-TODO ${i}\n+done ${i}`
        )
      ])
    )
  })
})

describe("a tool", () => {
  it("is a debugger when it takes a debugger's commands", () => {
    assert.strictEqual(
      ToolNature.of("mcp__pydebug__send_command", { session: "d1", expression: "n" }),
      "advance"
    )
    assert.strictEqual(ToolNature.of("gdb_command", { command: "continue" }), "advance")
    assert.strictEqual(ToolNature.of("gdb_command", { command: "print x" }), "read")
  })

  it("is one program, and looks when the program would", () => {
    assert.strictEqual(ToolNature.of("kubectl", { args: "get pods -n a" }), "read")
    assert.strictEqual(ToolNature.of("kubectl", { args: "delete pod a" }), "act")
    assert.strictEqual(ToolNature.of("git", { args: "status" }), "read")
    assert.strictEqual(ToolNature.of("sequentialthinking", { thought: "so" }), "thought")
  })

  it("of a shell looks when each of its commands does", () => {
    const natureOf = (command: string) => ToolNature.of("bash", { description: "find and delete", command })
    for (const command of [
      "ls",
      "cd /a && git status",
      "ls 2>/dev/null",
      "grep -n 'a->b; c' x.c",
      "cat a | head; wc -l b"
    ])
      assert.strictEqual(natureOf(command), "read", command)
    for (const command of ["ls; rm -rf x", "cat a && npm install", "ls\nnpm test", "echo x > a", "npm test"])
      assert.strictEqual(natureOf(command), "act", command)
    assert.strictEqual(ToolNature.of("bash", { cwd: "/a", command: "sleep 30" }), "pause")
  })

  it("of a shell may sleep first", () => {
    assert.isTrue(pausesFirst("bash", { command: "sleep 30 && ls" }))
    assert.isTrue(pausesFirst("bash", { command: "cd /a && sleep 5; make" }))
    assert.isFalse(pausesFirst("bash", { command: "make sleep" }))
    assert.isFalse(pausesFirst("send", { text: "sleep 5" }))
  })
})
