/**
 * Runs that were made to choose the numbers of the loop detector: honest work that looks repetitive, and loops. Each kind
 * has variants by number. None is recorded, and none is copied from a scored set.
 */

interface MadeCall {
  readonly turn: number
  readonly tool: string
  readonly arguments: unknown
  readonly result: unknown
  readonly failed: boolean
}

export interface MadeTrace {
  readonly kind: string
  /** Index of the first call that a reviewer would refuse; `undefined` for an honest run. */
  readonly stopFrom: number | undefined
  readonly calls: ReadonlyArray<MadeCall>
}

type Step = readonly [tool: string, args: unknown, result: unknown, failed?: boolean]
type Run = (n: number) => ReadonlyArray<Step>

const words = (
  "amber birch cedar delta ember fjord grove heath islet jetty knoll lagoon marsh north oasis prairie quarry ridge " +
  "shore tundra upland valley willow yonder zenith"
).split(" ")
const word = (i: number): string => words[i % words.length] ?? ""
const times = <A>(count: number, of: (i: number) => A): ReadonlyArray<A> =>
  Array.from({ length: count }, (_, i) => of(i))
const each = (count: number, of: (i: number) => ReadonlyArray<Step>): ReadonlyArray<Step> =>
  times(count, of).flat()
const clock = (seconds: number): string => new Date(1_790_000_000_000 + seconds * 1_000).toISOString()

const suite = "FAIL test/invoice.test.ts\nAssertionError: expected 41 to equal 42\n1 failed, 17 passed"
const noMatch = "The text to replace was not found in the file. Read the file again and copy it exactly."
const missing = { error: { code: "not_found", message: "No account exists for this address" } }
const look = (n: number): Step => [
  "read_file",
  { path: `src/${word(n)}.ts` },
  `export const ${word(n)} = make("${word(n + 3)}")`
]
const edit = (i: number): Step => [
  "edit_file",
  { path: "src/invoice.ts", old: `a${i}`, new: `b${i}` },
  "The file was updated."
]

/** Honest runs, by kind. */
const honest: Readonly<Record<string, Run>> = {
  "test and fix, one edit a time": (n) => [
    ...each(4 + n, (i) => [["run_tests", {}, suite, true], edit(i)]),
    ["run_tests", {}, "18 passed"]
  ],
  "test and fix in a shell": (n) => [
    ...each(4 + n, (i) => [
      ["bash", { command: `sed -i 's/${word(i)}/${word(i + 1)}/' src/invoice.ts` }, ""],
      ["bash", { command: "npm test 2>&1 | tail -5" }, suite, true]
    ]),
    ["bash", { command: "npm test 2>&1 | tail -5" }, "18 passed"]
  ],
  "test and fix with reads": (n) => [
    ...each(3 + n, (i) => [["run_tests", {}, suite, true], look(i), edit(i), look(i + 1)]),
    ["run_tests", {}, "18 passed"]
  ],
  "compile errors that get fewer": (n) => [
    ...each(5 + n, (i) => [
      ["bash", { command: "make" }, `main.c:${9 + i}: error: unknown type\n${9 + n - i} errors`, true],
      edit(i)
    ]),
    ["bash", { command: "make" }, "ok"]
  ],
  "CI with a time stamp": (n) => [
    ...each(9 + n, (i) => [["get_run", { id: 7 }, { status: "in_progress", updated_at: clock(i * 30) }]]),
    ["get_run", { id: 7 }, { status: "completed", updated_at: clock(400) }]
  ],
  "a wait with pauses": (n) => [
    ...each(7 + n, () => [
      ["bash", { command: `sleep ${20 + 3 * n}; kubectl get job load` }, "load  0/1  Running"]
    ]),
    ["bash", { command: `sleep ${20 + 3 * n}; kubectl get job load` }, "load  1/1  Complete"]
  ],
  "a wait with a pause in the shell": (n) => [
    ...each(7 + n, () => [
      ["bash", { command: `sleep ${20 + n}` }, ""],
      ["bash", { command: "squeue -u me" }, "41 PD gpu"]
    ]),
    ["bash", { command: "squeue -u me" }, ""]
  ],
  "two waits with a pause tool": (n) => [
    ...each(7 + n, () => [
      ["get_a", {}, "pending"],
      ["get_b", {}, "starting"],
      ["sleep", { seconds: 20 + n }, "slept"]
    ]),
    ["get_a", {}, "ready"]
  ],
  "a wait with a pause tool": (n) => [
    ...each(8 + n, () => [
      ["get_snapshot", { id: "s" }, { state: "pending" }],
      ["sleep", { seconds: 30 + n }, "slept"]
    ]),
    ["get_snapshot", { id: "s" }, { state: "ready" }]
  ],
  "pages of a list": (n) =>
    each(8 + n, (i) => [["list_users", { page: i }, { users: [word(i), word(i + 7)], page: i }]]),
  "pages by one call": (n) =>
    each(8 + n, (i) => [["next_page", {}, { rows: [word(i), word(i + 5), word(2 * i)] }]]),
  "refused edits, then a read": (n) => [
    ...each(2 + (n % 4), (i) => [
      ["edit_file", { path: "a.ts", old: ` ${word(i)}`, new: "x" }, noMatch, true]
    ]),
    look(1),
    ["edit_file", { path: "a.ts", old: "right", new: "x" }, "The file was updated."]
  ],
  "guesses, then a hit": (n) => [
    ...each(3 + (n % 5), (i) => [["get_account", { mail: `${word(i)}@mail.example` }, missing, true]]),
    ["get_account", { mail: "zoe@mail.example" }, { id: 7, name: "Zoe" }]
  ],
  "a checklist of what is gone": (n) =>
    each(8 + n, (i) => [["get_file", { id: `${word(i)}-${i}` }, "not found", true]]),
  "HTTP 503 that passes": (n) => [
    ...each(3 + (n % 4), () => [
      ["http_get", { url: "https://a.example/x" }, { status: 503, body: "Service Unavailable" }, true]
    ]),
    ["http_get", { url: "https://a.example/x" }, { status: 200, body: "fine" }]
  ],
  "a lock that passes": (n) => [
    ...each(3 + (n % 4), () => [
      ["bash", { command: "apt-get install -y jq" }, "E: Could not get lock /var/lib/dpkg/lock", true]
    ]),
    ["bash", { command: "apt-get install -y jq" }, "Setting up jq (1.7)"]
  ],
  "a server that starts": (n) => [
    ["bash", { command: "npm start &" }, ""],
    ...each(3 + (n % 4), () => [
      ["bash", { command: "curl localhost:80" }, "curl: (7) Failed to connect: Connection refused", true]
    ]),
    ["bash", { command: "curl localhost:80" }, "hello"]
  ],
  "a list of deletions": (n) => each(12 + n, (i) => [["delete_mail", { id: `m-${i}` }, { deleted: true }]]),
  "different tickets": (n) =>
    each(6 + n, (i) => [["create_ticket", { title: `Fix the ${word(i)} page` }, `Created OPS-${410 + i}.`]]),
  "a queue with work": (n) =>
    each(7 + n, (i) => [
      ["next_job", {}, { job_id: 70 + i, kind: "resize" }],
      ["resize", { job: 70 + i }, "done"]
    ]),
  "a queue without work": (n) => each(7 + n, (i) => [["take_job", {}, `took ${word(i)} for ${word(i + 4)}`]]),
  "searches without a result": (n) =>
    each(8 + n, (i) => [["web_search", { query: `history of ${word(i)} mills` }, "No results."]]),
  "a cart": (n) => each(4 + n, (i) => [["add_to_cart", { sku: "A1" }, { quantity: i + 1 }]]),
  "one change, one check": (n) =>
    each(6 + n, (i) => [
      ["set_flag", { name: word(i), on: true }, "ok"],
      ["check_health", {}, { healthy: true }]
    ]),
  "a growing log": (n) =>
    each(8 + n, (i) => [["bash", { command: "tail -1 train.log" }, `epoch ${i} loss 0.${90 - i}`]])
}

/** Loops, by kind: the honest calls before, and one lap. */
const loops: Readonly<
  Record<string, { readonly lap: (i: number, n: number) => ReadonlyArray<Step>; readonly from: number }>
> = {
  "one failing command": { lap: () => [["bash", { command: "npm test" }, suite, true]], from: 3 },
  "one failing call, with reads": { lap: (i) => [["run_tests", {}, suite, true], look(i)], from: 6 },
  "a missing file": {
    lap: () => [["open", { path: "/x.csv" }, "FileNotFoundError: no such file /x.csv", true]],
    from: 3
  },
  "one read": { lap: () => [["read_file", { path: "a.ts" }, "export const a = 1"]], from: 4 },
  "a refused edit, in variants": {
    lap: (i) => [["edit_file", { path: "a.ts", old: `${word(i)} ${i}`, new: "x" }, noMatch, true]],
    from: 6
  },
  "guesses with one error": {
    lap: (i) => [["get_account", { mail: `${word(i)}.${i}@mail.example` }, missing, true]],
    from: 8
  },
  "the same ticket again": {
    lap: (i) => [["create_ticket", { title: "Fix login" }, `Created OPS-${410 + i} for you.`]],
    from: 3
  },
  "the same order again": {
    lap: (i) => [["place_order", { sku: "A1" }, { order_id: 90_210 + i, state: "placed" }]],
    from: 3
  },
  "a poll without a pause": { lap: () => [["get_status", { id: 1 }, { state: "queued" }]], from: 5 },
  "two calls in turn": {
    lap: () => [
      ["open_tab", { n: 1 }, "tab one"],
      ["open_tab", { n: 2 }, "tab two"]
    ],
    from: 6
  },
  "four calls in turn": {
    lap: () => times(4, (k): Step => ["click", { on: word(k) }, `${word(k)} is shown`]),
    from: 8
  },
  "a parameter that is ignored": {
    lap: (i) => [
      [
        "list_users",
        { page: i + 1 },
        {
          users: [
            { id: 1, name: "Ann" },
            { id: 2, name: "Bob" }
          ]
        }
      ]
    ],
    from: 4
  },
  "a fault that stays": {
    lap: () => [["http_get", { url: "https://a.example/x" }, { status: 503 }, true]],
    from: 6
  },
  "fixes that change nothing": { lap: (i) => [edit(i), ["run_tests", {}, suite, true]], from: 12 }
}

const made = (kind: string, stopFrom: number | undefined, steps: ReadonlyArray<Step>): MadeTrace => ({
  kind,
  stopFrom,
  calls: steps.map(([tool, args, result, failed = false], turn) => ({
    turn,
    tool,
    arguments: args,
    result,
    failed
  }))
})

const variants = 8

/** All runs: 23 honest kinds and 14 kinds of loops, in 8 variants each. */
export const madeTraces: ReadonlyArray<MadeTrace> = [
  ...Object.entries(honest).flatMap(([kind, run]) =>
    times(variants, (n) => made(kind, undefined, [...times(n % 3, look), ...run(n)]))
  ),
  ...Object.entries(loops).flatMap(([kind, { lap, from }]) =>
    times(variants, (n) => made(kind, n + from, [...times(n, look), ...each(24, (i) => lap(i, n))]))
  )
]
