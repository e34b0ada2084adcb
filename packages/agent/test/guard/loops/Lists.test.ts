/** Lists that an agent goes through, and next to each the loop that it looks like. Through the detector's own door. */
import { assert, describe, it } from "@effect/vitest"
import { LoopDetector } from "@outlast/agent"
import * as Cycle from "@outlast/agent/guard/loops/Cycle"
import { isStopped, ran, random, rounds, runsOn } from "./support.ts"

const settings =
  "http2 gzip brotli keepalive timeout buffers charset resolver referrer expires etag sendfile aio mmap limit zone".split(
    " "
  )

describe("a search that halves what is left", () => {
  const build = ran("bash", { command: "make -s all | tail -1" }, "make: done")
  const test = (good: boolean) =>
    ran(
      "bash",
      { command: "./run-case.sh upload" },
      good ? "upload: PASS" : "upload: FAIL (end of file)",
      !good
    )
  const bisect = (good: boolean, left: number, steps: number) =>
    ran(
      "bash",
      { command: `git bisect ${good ? "good" : "bad"}` },
      `Bisecting: ${left} revisions left to test after this (roughly ${steps} steps)\ntest: more cases`
    )

  it("comes to numbers that were met before", () => {
    const bad = [31, 15, 7, 3, 2, 1].map((left, i) => bisect(false, left, Math.max(1, 5 - i)))
    const good = [126, 62, 30, 7].map((left, i) => bisect(true, left, 7 - i))
    const step = (bisected: (typeof bad)[number]) => [build, test(good.includes(bisected)), bisected]
    const met = ran("bash", { command: "seq 31" }, Array.from({ length: 31 }, (_, i) => i + 1).join(" "))
    // A test that fails is the same call with the same failure: by the defaults that is due six times.
    runsOn([met, ...[...good, ...bad].flatMap(step)], LoopDetector.make())
    isStopped(
      rounds(8, () => [build, test(false), bisect(false, 3, 2)]),
      12
    )
  })
})

describe("pages of one list", () => {
  const places = "Oerlikon Seebach Wipkingen Altstetten Wiedikon Leimbach".split(" ")
  const shown = (from: number, count: number) => {
    const next = random(from)
    const flat = () =>
      `${["3", "3.5", "4"][next(3)]} Zi · ${places[next(6)]} · ${50 + next(60)} m² · CHF ${2_000 + 10 * next(80)}`
    return [`Resultate ${from}–${from + count - 1} von 180`, ...Array.from({ length: count }, flat)].join(
      "\n"
    )
  }
  const scroll = ran("scroll", { direction: "down", pixels: 1_400 }, "ok")

  it("say where they are, with whatever dash", () => {
    const next = random(3)
    let from = 1
    runsOn(
      rounds(30, () => {
        const count = 4 + next(4)
        from += count
        return [scroll, ran("get_visible_text", {}, shown(from - count, count))]
      })
    )
    isStopped(
      rounds(17, () => [scroll, ran("get_visible_text", {}, shown(7, 5))]),
      16
    )
  })
})

describe("a list", () => {
  const names = (
    "www api auth cdn img static mail smtp imap ns db cache queue search jobs build wiki chat shop blog docs help " +
    "pay beta stage demo news forum maps play"
  ).split(" ")

  it("of things that are set, each without a word", () => {
    const sets = (i: number, service: string, args: object) =>
      ran("ha_call", { domain: service, entity_id: `${service}.${names[i]}`, ...args }, [])
    runsOn(
      rounds(20, (i) => [
        sets(i, "cover", { service: "set_position", position: 30 }),
        sets(i, "light", { service: "turn_off" }),
        sets(i, "climate", { service: "set_temperature", temperature: 16 })
      ])
    )
  })

  it("of hosts that all answer the same, at length", () => {
    const look = (i: number) =>
      ran(
        "bash",
        {
          command: `openssl s_client -connect ${names[i]}.example:443 2>/dev/null | openssl x509 -noout -enddate`
        },
        "notAfter=Jun 14 23:59:59 2026 GMT\nissuer=C=US, O=Let's Encrypt, CN=R11"
      )
    runsOn(rounds(30, (i) => [look(i)]))
    isStopped(
      rounds(30, (i) => [look(i % 2)]),
      8
    )
  })

  it("of pages that are all there, as their heads say", () => {
    const head = (i: number) =>
      ran(
        "fetch",
        { url: `https://www.loomly.example/${names[i]}`, method: "HEAD" },
        `HTTP/2 200\ncontent-type: text/html; charset=utf-8\ndate: Sat, 12 Sep 2026 19:14:${10 + i} GMT\nserver: nginx`
      )
    runsOn(rounds(30, (i) => [head(i)]))
    isStopped(
      rounds(30, () => [head(3)]),
      8
    )
  })

  it("of files of which most have nothing, which a command tells by its end", () => {
    const count = (file: string, found: number) =>
      ran("bash", { command: `zgrep -c "disk error" /var/log/${file}.gz` }, `${found}\n`, found === 0)
    runsOn(names.map((name, i) => count(name, i % 9 === 7 ? i : 0)))
    isStopped(
      names.map((name) =>
        ran("bash", { command: `zgrep -c x /log/${name}` }, "zgrep: error: permission denied", true)
      ),
      8
    )
  })

  it("of hosts that are each done something to, after all were looked at", () => {
    const does = (command: string, result: string) => (i: number) =>
      ran("remote_exec", { host: names[i], command }, result)
    const looks = does("uname -r", "6.1.0-21-amd64")
    const upgrades = does("apt-get -y dist-upgrade && reboot", "Connection closed by remote host.")
    const waits = (i: number) => ran("wait_for_host", { host: names[i], timeout: 300 }, `up after ${40 + i}s`)
    runsOn([...rounds(30, (i) => [looks(i)]), ...rounds(30, (i) => [upgrades(i), waits(i)])])
  })

  it("of parts that begin where the last one ended, in a query", () => {
    const part = (from: number) =>
      ran(
        "execute_sql",
        {
          sql: `UPDATE events SET tenant_id = 1 WHERE events.id > ${from} AND events.id <= ${from + 50_000}`
        },
        `UPDATE 50000\nTime: ${2_000 + (from % 997)}.5 ms`
      )
    runsOn(rounds(40, (i) => [part(50_000 * i)]))
    isStopped(
      rounds(40, (i) => [part(50_000 * (i % 3))]),
      8
    )
  })

  it("of parts of which some have errors", () => {
    const part = (i: number) => {
      const errors = [1, 0, 1, 2, 1, 0, 0, 1, 2, 1, 1, 0, 1][i % 13] ?? 0
      return ran(
        "import_rows",
        { file: "herbarium.csv", offset: 500 * i, limit: 500 },
        {
          imported: 500 - errors,
          errors: Array.from({ length: errors }, (_, n) => ({
            row: 500 * i + 37 * n + 13 + i,
            msg: "duplicate barcode"
          }))
        }
      )
    }
    runsOn(rounds(36, (i) => [part(i)]))
  })

  it("of postings, with a check after each that says yes", () => {
    const posts = (i: number) =>
      ran("gl.post", { period: "2025-06", memo: names[i], account: `${6_300 + 10 * i}` }, { posted: true })
    const check = ran("gl.trial_balance", { period: "2025-06" }, { balanced: true, difference: 0 })
    runsOn(rounds(20, (i) => [posts(i), check]))
    isStopped(
      rounds(20, () => [posts(0), check]),
      12
    )
  })

  it("of spellings of what is not there is none", () => {
    const spelt = "compress tile pack zip squeeze shrink"
      .split(" ")
      .flatMap((one) => ["map", "page", "image", "layer", "cell"].map((other) => `${one}_${other}`))
    isStopped(
      spelt.map((name) => ran("bash", { command: `grep -rn "${name}" src/` }, "", true)),
      13
    )
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
    const moved = text("Not this one", "Moved to where the guides of all the parts are that this server has")
    isStopped(
      rounds(16, (i) => [asks(settings[i] ?? "", moved)]),
      12
    )
  })
})

describe("a grid", () => {
  const rates = [0.01, 0.02, 0.05, 0.1]
  const leaves = [15, 31, 63, 127]

  it("asks for each pair of what was asked before, and each has figures of its own", () => {
    const next = random(11)
    const fits = (rate: number, count: number) =>
      ran(
        "notebook_run",
        { code: `fit(learning_rate=${rate}, num_leaves=${count}, min_child_samples=20)` },
        `Number of positive: 9120, number of negative: 55867\nbest iteration is: [${next(2_000)}]\nvalid auc: 0.84${next(99)}`
      )
    runsOn(leaves.flatMap((count) => rates.map((rate) => fits(rate, count))))
    const measures = (lock: string, threads: number) =>
      ran(
        "sh",
        { cmd: `bench --lock=${lock} --threads=${threads}` },
        `lock=${lock} threads=${threads} ops/s=${next(90)}.${next(99)}M p99=${next(9)}.1us`
      )
    const locks = ["spinlock", "mutex", "mcs", "ticket"]
    runsOn(locks.flatMap((lock) => [1, 2, 4, 6, 8, 12, 16].map((threads) => measures(lock, threads))))
  })

  it("is no cycle, whose calls have answers of their own", () => {
    const going = (items: ReadonlyArray<readonly [call: number, outcome: number]>) =>
      Cycle.goingOn(
        items.reduce(
          (cycle, [call, outcome]) =>
            Cycle.add(cycle, { tool: 1, call, outcome, said: outcome, waiting: false }),
          Cycle.none()
        ),
        1,
        items[0]?.[0] ?? 0,
        2
      )
    assert.deepInclude(going([1, 2, 1, 2, 1, 2].map((n) => [n, n])), { period: 2, rounds: 3, exact: 3 })
    // The same answer to many questions, and the same call with answers that alternate.
    assert.isUndefined(going([1, 2, 3, 4, 5, 6].map((n) => [n, 7])))
    assert.isUndefined(going([1, 2, 1, 2, 1, 2].map((n) => [7, n])))
  })

  it("of hosts and commands may bring the same from all", () => {
    const host = (i: number) => `web${String(i).padStart(2, "0")}`
    const asks = (i: number, command: string, result: string) =>
      ran("remote_exec", { host: host(i), command }, result)
    const waits = (i: number) => ran("wait_for_host", { host: host(i) }, `up after ${i + 30} s`)
    runsOn([
      ...rounds(20, (i) => [asks(i, "uname -r", i % 4 > 0 ? "6.1.0-18-amd64" : "6.1.0-21-amd64")]),
      ...rounds(8, (i) => [
        asks(i, "dist-upgrade && reboot", "Connection closed by remote host."),
        waits(i),
        asks(i, "uname -r", "6.1.0-21-amd64")
      ])
    ])
  })
})

describe("questions of one form", () => {
  it("go through a list where one word of several is another each time", () => {
    const asks = (gene: string, found: string) =>
      ran("pubmed_search", { term: `${gene}[Title] AND "pulmonary hypertension"[MeSH]` }, found)
    runsOn(rounds(36, (i) => [asks(`GENE${i * 7}`, i % 6 === 5 ? `{"count":${i}}` : "no results")]))
  })
})

describe("what is no list", () => {
  const shell = (command: string, result: string, failed = false) =>
    ran(
      "shell",
      { command: ["bash", "-lc", command], workdir: "/workspace/app", timeout_ms: 120_000 },
      result,
      failed
    )

  it("is a command that fails with every flag, though other commands went well", () => {
    const flags =
      "no-daemon offline info stacktrace quiet rerun-tasks no-build-cache no-parallel scan dry-run".split(" ")
    isStopped(
      [
        ...["git status", "ls -la", "cat build.gradle", "git log -3"].map((command) =>
          shell(command, `${command}: fine`)
        ),
        ...flags.map((flag) =>
          shell(`./gradlew test --${flag}`, "FAILURE: cannot find a Java installation", true)
        )
      ],
      12
    )
  })

  it("is the same plan, written under the name of another moment", () => {
    const plan = (i: number) =>
      shell(
        `terraform plan -out=/tmp/plan-20260717-0943${i + 10}.out`,
        `Refreshing state... in ${3 + (i % 4)}s\nTerraform will perform the following actions:\n  + create\nPlan: 3 to add, 0 to change, 0 to destroy. Saved the plan to: /tmp/plan-20260717-0943${i + 10}.out`
      )
    isStopped(
      rounds(30, (i) => [plan(i)]),
      20
    )
  })
})

describe("a long list", () => {
  it("may be of days, and what was done for each says little", () => {
    const next = random(29)
    const fills = (date: string) =>
      ran(
        "run_backfill",
        { dag: "orders", logical_date: date },
        `[${date.slice(0, 10)}] load ok, ${next(9_999)} rows`
      )
    runsOn(rounds(30, (i) => [fills(`2026-11-${String(i + 1).padStart(2, "0")}T00:00:00Z`)]))
    // A moment that is now is of the caller's making.
    isStopped(
      rounds(30, (i) => [
        ran("run_backfill", { dag: "orders", at: `2026-11-21T10:00:${i + 10}Z` }, "load ok, 0 rows")
      ]),
      8
    )
  })

  it("may be of sessions that are ended, one by one", () => {
    const id = (i: number) => `22d2c8f8-eddd-443c-9110-5719${String(i).padStart(8, "0")}`
    runsOn(rounds(40, (i) => [ran("revoke_session", { session_id: id(i) }, "revoked")]))
    runsOn(
      rounds(40, (i) => [
        ran("revoke_session", { session_id: id(i), explanation: "The next", limit: null }, "revoked")
      ])
    )
    isStopped(
      rounds(40, (i) => [ran("ask_agent", { session_id: id(i), message: "Any news?" }, "None.")]),
      8
    )
  })

  it("may have nothing special about any of its items", () => {
    const next = random(17)
    const asks = (i: number) => ({
      url: `https://${settings[i % 16]}.example/${i}/${settings[(i >> 4) % 16]}`
    })
    runsOn(
      rounds(150, (i) => [
        i > 6 && next(10) < 3
          ? ran("http_head", asks(i), "404 Not Found", true)
          : ran("http_head", asks(i), "200 OK")
      ])
    )
  })

  it("has pages, and nothing behind the last, whatever the tool is called", () => {
    const page = (n: number) =>
      n < 9
        ? { total: 84, pages: 9, items: [{ species: settings[n], seen: n * 3 }] }
        : { total: 84, pages: 9, items: [] }
    isStopped(
      rounds(40, (n) => [ran("birdapi.observations", { species: "terns", page: n }, page(n))]),
      22
    )
  })

  it("of errors gets shorter, file by file, though each is checked by another command", () => {
    const checks = (i: number, left: number) =>
      ran(
        "bash",
        { command: `git rm src/${settings[i]}.js && tsc | tail -1` },
        `Found ${left} errors in ${left} files.`,
        true
      )
    const writes = (i: number) =>
      ran("write", { path: `src/${settings[i]}.ts`, content: `export const ${settings[i]} = 1` }, "created")
    runsOn(rounds(16, (i) => [writes(i), checks(i, 20 - i)]))
    isStopped(
      rounds(16, (i) => [writes(i), checks(i, 20)]),
      16
    )
  })
})

describe("a name that has a number", () => {
  it("is the next table of a log, for a while", () => {
    const tails = (i: number) =>
      ran(
        "bash",
        { command: "tail -n 1 restore.log" },
        `pg_restore: processing data for table "public.orders_${2_001 + i}"`
      )
    runsOn(rounds(14, (i) => [tails(i)]))
    isStopped(
      rounds(14, () => [tails(1)]),
      9
    )
  })
})
