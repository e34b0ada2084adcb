/** Tests of the simulation: worlds with a known outcome, and equal draws for every policy. */
import { readFileSync } from "node:fs"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Schema } from "effect"
import * as Arrivals from "./Arrivals.ts"
import * as Chains from "./Chains.ts"
import * as Command from "./Command.ts"
import type { DrawKey } from "./Draw.ts"
import { draw } from "./Draw.ts"
import * as Gates from "./Gates.ts"
import type { PolicyName } from "./Policies.ts"
import { policies } from "./Policies.ts"
import type { CallLog } from "./Report.ts"
import { report } from "./Report.ts"
import { Server } from "./Server.ts"
import type { Simulation } from "./Simulation.ts"
import { logOf, simulate } from "./Simulation.ts"
import * as Sweeps from "../sweeps.ts"
import * as VirtualTime from "./VirtualTime.ts"
import type { WorldName } from "./Worlds.ts"
import { World } from "./World.ts"
import { worlds } from "./Worlds.ts"

const of = (
  world: WorldName,
  chain: Chains.ChainName,
  arrivals: string,
  policy: PolicyName = "interactive",
  seed = 1
): Simulation => ({
  ...Gates.simulationOf({ world, chain, arrivals }),
  policy: policies[policy],
  seed
})

describe("a healthy world", () => {
  for (const chain of ["one-target", "three-keys", "both-bad", "one-bad"] as const) {
    for (const arrivals of ["4/s for 10s", "60 at once", "100 by 8"]) {
      it(`answers every call with one request: ${chain}, ${arrivals}`, () => {
        const { goodput, calls, requests, unfinished, waitP99 } = simulate(of("healthy", chain, arrivals))
        assert.deepStrictEqual(
          { goodput, requests, unfinished, waitP99 },
          { goodput: 1, requests: calls, unfinished: 0, waitP99: 0 }
        )
      })
    }
  }

  it("answers streams, too", () => {
    const { goodput, elapsed } = simulate({ ...of("healthy", "one-target", "60 at once"), answers: "stream" })
    assert.deepStrictEqual({ goodput, elapsed }, { goodput: 1, elapsed: 3_000 })
  })

  it("reports peak, stall and end of a burst", () => {
    const { elapsed, longest, peak, stall } = simulate(of("healthy", "one-target", "60 at once"))
    assert.deepStrictEqual(
      { elapsed, longest, peak, stall },
      { elapsed: 3_000, longest: 3_000, peak: 60, stall: 3_000 }
    )
  })
})

describe("draws", () => {
  it("give the same report for the same seed, and another for another", () => {
    const report = (seed: number) => simulate(of("flaky-30", "both-bad", "60 at once", "interactive", seed))
    assert.deepStrictEqual(report(1), report(1))
    assert.notDeepEqual(report(1), report(2))
  })

  it("give two policies the same outcome of the same attempt", () => {
    const fates = (policy: PolicyName) => {
      const met = new Map<string, unknown>()
      const key = ({ call, target, attempt }: DrawKey) => [call, target, attempt].join()
      logOf(of("mixed", "both-bad", "4/s for 30s", policy), (drawn, fate) => met.set(key(drawn), fate))
      return met
    }
    const [one, two] = [fates("interactive"), fates("neither")]
    const shared = [...one.keys()].filter((key) => two.has(key))
    assert.isAbove(shared.length, 50)
    for (const key of shared) assert.deepStrictEqual(one.get(key), two.get(key), key)
  })

  it("are uniform and independent between attempts", () => {
    const calls = Array.from({ length: 20_000 }, (_, call) => call)
    const failing = (attempt: number) => (call: number) =>
      draw({ seed: 1, call, target: 0, attempt }, "fails") < 0.3
    const first = calls.filter(failing(1))
    assert.approximately(first.length / calls.length, 0.3, 0.015)
    assert.approximately(first.filter(failing(2)).length / first.length, 0.3, 0.03)
  })
})

describe("a server", () => {
  const key: DrawKey = { seed: 1, call: 0, target: 0, attempt: 1 }

  it("accepts requests up to its limit, and names the time of the next one", () => {
    const server = new Server({ answer: 1_000, limit: { requests: 2, per: 60_000 } })
    const statuses = [0, 0, 0, 30_000, 30_000].map((now) => {
      const fate = server.request(key, 1, now)
      return fate._tag === "Failure" ? fate.as : fate._tag
    })
    const refused = { status: 429, retryAfter: 30_000 }
    assert.deepStrictEqual(statuses, ["Answer", "Answer", refused, "Answer", refused])
  })

  it("gives each key its own limit, unless the limit is the vendor's", () => {
    const tags = (scope: "key" | "vendor") => {
      const server = new Server({ answer: 1_000, limit: { requests: 1, per: 1_000, scope } })
      return [1, 2].map((n) => server.request(key, n, 0)._tag)
    }
    assert.deepStrictEqual(
      [tags("key"), tags("vendor")],
      [
        ["Answer", "Answer"],
        ["Answer", "Failure"]
      ]
    )
  })

  it("has a late first token in the share of its streams", () => {
    const server = new Server({ answer: 1_000, slowFirstToken: { share: 1, after: 30_000 } })
    assert.deepStrictEqual(server.request(key, 1, 0), {
      _tag: "Answer",
      after: 30_800,
      firstToken: 30_000
    })
  })

  it("sheds requests above its slots, or lets them wait", () => {
    const fates = (queue: number) => {
      const server = new Server({ answer: 1_000, capacity: { slots: 1, queue, as: { status: 503 } } })
      return [0, 400, 1_000].map((now) => {
        const fate = server.request(key, 1, now)
        return fate._tag === "Answer" ? fate.after : fate._tag
      })
    }
    assert.deepStrictEqual(
      [fates(0), fates(5_000)],
      [
        [1_000, "Failure", 1_000],
        [1_000, 1_600, 2_000]
      ]
    )
  })

  it("refuses its dead keys, and every request in an outage", () => {
    const server = new Server({
      answer: 1_000,
      deadKeys: [2],
      outages: [{ from: 1_000, to: 2_000, as: "hang" }]
    })
    const tags = ([1, 2] as const).map((n) => server.request(key, n, 0)._tag)
    const later = [999, 1_000, 1_999, 2_000].map((now) => server.request(key, 1, now)._tag)
    assert.deepStrictEqual(
      [tags, later],
      [
        ["Answer", "Failure"],
        ["Answer", "Hang", "Hang", "Answer"]
      ]
    )
  })
})

describe("a report", () => {
  const call = (start: number, answered: boolean): CallLog => ({
    number: 0,
    start,
    end: start + 100,
    answered,
    requests: 1,
    last: 100,
    firstToken: undefined,
    vendor: 0
  })

  it("names the second from which on 95 % of new calls succeed", () => {
    const calls = Array.from({ length: 100 }, (_, i) => call(i * 500, i < 20 || i >= 32))
    const { recovery } = report({ calls, requests: [], byVendor: [], circuits: [] }, 10_000)
    assert.strictEqual(recovery, 6_000)
  })

  it("has no recovery when no call began after the outage", () => {
    const { recovery } = report({ calls: [call(0, false)], requests: [], byVendor: [], circuits: [] }, 10_000)
    assert.strictEqual(recovery, undefined)
  })
})

describe("a log", () => {
  it("names the vendor that answered, its requests, and the first token that the consumer saw", () => {
    const { byVendor, calls } = logOf({ ...of("down", "one-bad", "1/min for 60s"), answers: "stream" })
    const [call] = calls
    if (call === undefined) assert.fail("no call")
    assert.strictEqual(call.vendor, 1)
    assert.strictEqual(byVendor[1]?.length, 1)
    assert.strictEqual((byVendor[0]?.length ?? 0) + 1, call.requests)
    assert.strictEqual((call.end ?? 0) - call.start - (call.firstToken ?? 0), 2_400)
  })
})

describe("virtual time", () => {
  it("ends sleeps in the order of their ends, and those at the same time in the order of their beginnings", () => {
    const order: Array<string> = []
    const names = Array.from({ length: 20 }, (_, i) => [`${i}`, i % 3 === 0 ? 86_400_000 : 5] as const)
    const exit = VirtualTime.run(
      Effect.forEach(
        names,
        ([name, at]) =>
          Effect.andThen(
            Effect.sleep(at),
            Effect.sync(() => order.push(name))
          ),
        { concurrency: "unbounded", discard: true }
      )
    )
    const expected = [5, 86_400_000].flatMap((end) =>
      names.flatMap(([name, at]) => (at === end ? [name] : []))
    )
    assert.deepStrictEqual([exit && Exit.isSuccess(exit), order], [true, expected])
  })

  it("ends at a timeout, not at the sleep that it interrupts", () => {
    const exit = VirtualTime.run(
      Effect.andThen(
        Effect.timeoutOption(Effect.sleep("1 hour"), "1 second"),
        Effect.clockWith((clock) => clock.currentTimeMillis)
      )
    )
    assert.deepStrictEqual(exit, Exit.succeed(1_000))
  })

  it("returns when every fiber waits and no sleep is left", () => {
    assert.strictEqual(VirtualTime.run(Effect.never), undefined)
  })
})

describe("patterns", () => {
  const phasesOf = (text: string) => {
    const parsed = Arrivals.parse(text)
    return parsed?._tag === "Rate" ? parsed.phases : []
  }

  it("of arrivals are read, and other text is not", () => {
    const read = (text: string) => Arrivals.parse(text)?._tag
    assert.deepStrictEqual(Arrivals.patterns.map(read), [
      "Rate",
      "Rate",
      "Rate",
      "AtOnce",
      "AtOnce",
      "Together"
    ])
    assert.deepStrictEqual(
      Arrivals.times([...phasesOf("12/min for 15s"), ...phasesOf("1/min for 120s")]),
      [0, 5_000, 10_000, 15_000, 75_000]
    )
    assert.deepStrictEqual(["", "4/s", "0/s for 5s", "0 at once", "5 at once, 1/s for 2s"].filter(read), [])
  })

  it("of chains are read, and other text is not", () => {
    assert.deepStrictEqual(Chains.parse("main*3, other"), [
      { role: "main", keys: 3 },
      { role: "other", keys: 1 }
    ])
    assert.deepStrictEqual(["", "main,", "third", "main*0"].filter(Chains.parse), [])
  })
})

describe("the command", () => {
  const ran = async (...args: ReadonlyArray<string>) => {
    const printed: Array<string> = []
    const errors: Array<string> = []
    const code = await Command.run(args, {
      out: (text) => printed.push(text),
      error: (text) => errors.push(text)
    })
    return { code, printed: printed.join("\n"), problem: errors.join("\n").split("\n")[0] }
  }

  it("prints a table for a world, a chain and a pattern", async () => {
    const args = ["--world", "healthy", "--chain", "one-target", "--arrivals", "5 at once", "--seeds", "2"]
    const { code, printed } = await ran(...args, "--markdown")
    assert.strictEqual(code, 0)
    assert.match(printed, /^\| {2}\| calls \| answered \|/)
    assert.match(printed, /\n\| one-target, 5 at once \| 5 \| 5 \| 1\.00 \|/)
  })

  for (const [args, problem] of [
    [["--world", "nowhere"], '--world "nowhere": no world of that name, and no .json file.'],
    [["--policy", "none"], '--policy "none": no policy of that name, and no module (.ts, .js).'],
    [["--chain", "third"], '--chain "third": neither a name nor a list like "main*3, other".'],
    [
      ["--arrivals", "often"],
      '--arrivals "often": write it like "4/s for 150s", "60 at once" or "2500 by 64".'
    ],
    [
      ["--gates", "--only", "nothing"],
      `--only "nothing" is in none of these: ${Gates.gates.map(({ name }) => name).join("; ")}.`
    ],
    [["--seeds", "0"], '--seeds "0": a whole number from 1 to 9999.']
  ] as const) {
    it(`explains ${args.join(" ")}, and ends with 2`, async () => {
      assert.deepStrictEqual(await ran(...args), { code: 2, printed: "", problem })
    })
  }

  it("reads the world of the documentation", () => {
    const text = readFileSync(new URL("../../docs/internals/load.md", import.meta.url), "utf8")
    const [, example = ""] = /```json\n([\s\S]*?)```/.exec(text) ?? []
    const world = Schema.decodeUnknownSync(Schema.fromJsonString(World), { onExcessProperty: "error" })(
      example
    )
    assert.strictEqual(world.other?.answer, 5_000)
  })

  // Each thread loads all of the simulation, so this is for the night.
  if (Sweeps.isFull) {
    it("checks gates with several seeds in threads, with the same verdicts as in one", async () => {
      const name = "keys that share one limit: all calls are answered"
      const { code, printed } = await ran("--gates", "--seeds", "3", "--json", "--only", name)
      const expected = Gates.check(
        policies.interactive,
        [1, 2, 3],
        Gates.gates.filter((one) => one.name === name)
      )
      assert.deepStrictEqual([code, JSON.parse(printed)], [0, expected])
    })
  }

  it("explains a file that is not a world", async () => {
    const { code, problem } = await ran("--world", "package.json")
    assert.deepStrictEqual([code, problem?.split(":")[0]], [2, '--world "package.json" is not a world'])
  })
})

describe("a gate", () => {
  const gate: Gates.Gate = {
    name: "few requests",
    situations: [{ world: "healthy", chain: "one-target", arrivals: "5 at once" }],
    unit: "requests",
    measure: ({ report }) => report.requests,
    limit: { atMost: 5 },
    shown: String
  }

  it("passes at its limit, and names the worst case above it", () => {
    const [passed, failed] = Gates.check(
      policies.interactive,
      [1, 2],
      [gate, { ...gate, limit: { atMost: 4 } }]
    )
    assert.deepInclude(passed, { pass: true, failed: 0, of: 2 })
    assert.deepInclude(failed, {
      pass: false,
      failed: 2,
      wanted: "requests ≤ 4",
      worst: "5",
      where: "healthy, one-target, 5 at once, seed 1"
    })
  })

  it("tolerates a share of the runs above its limit, over all seeds", () => {
    const half: Gates.Gate = {
      ...gate,
      situations: ["5 at once", "6 at once"].map((arrivals) => ({
        world: "healthy",
        chain: "one-target",
        arrivals
      }))
    }
    const passes = (tolerated: number, seeds: ReadonlyArray<number>) =>
      seeds
        .map((seed) => Gates.check(policies.interactive, [seed], [{ ...half, tolerated }]))
        .reduce(Gates.merged)
        .map(({ failed, of, pass }) => [pass, failed, of])
    assert.deepStrictEqual(passes(0.5, [1, 2]), [[true, 2, 4]])
    assert.deepStrictEqual(passes(0.4, [1, 2]), [[false, 2, 4]])
  })

  it("is measured against worlds that exist", () => {
    for (const { situations } of Gates.gates) {
      for (const { world, arrivals } of situations) {
        assert.isTrue(Object.hasOwn(worlds, world))
        assert.isDefined(Arrivals.parse(arrivals))
      }
    }
  })
})
