/** Actions by which operators change the running service. */
import { Effect, Schema } from "effect"
import type { Context } from "effect"
import type { LiveConfig } from "@outlast/agent/config"
import type { Targets } from "@outlast/agent/failover"
import type { DeadLetters } from "@outlast/delivery"
import { Ops } from "@outlast/node/ops"
import { Verdict } from "@outlast/tasks"
import type { Tasks } from "@outlast/tasks"
import type { CircuitBreaker } from "@outlast/resilience"

export interface Parts {
  readonly targets: Context.Service.Shape<typeof Targets.Targets>
  readonly breaker: CircuitBreaker.Service
  /** Names of all circuits. */
  readonly circuits: ReadonlyArray<string>
  readonly live: LiveConfig.Service
  readonly tasks: Tasks.Service
  /** Absent without `--store`. */
  readonly dead: DeadLetters.Service | undefined
}

interface Refused {
  readonly message: string
}

const Circuit = Schema.Struct({ circuit: Schema.String })

const replay = (dead: DeadLetters.Service): Ops.Action =>
  Ops.action({
    doc: 'Stores dead letters as events again: { "ids": [NUMBER or id of the event] }, at most 100.',
    params: Schema.Struct({
      ids: Schema.Array(Schema.String).check(Schema.isMinLength(1), Schema.isMaxLength(100))
    }),
    subject: ({ ids }) => ids.join(", "),
    run: ({ ids }) =>
      Effect.gen(function* () {
        const missing = yield* Effect.filter(ids, (id) =>
          Effect.map(dead.count({ ids: [id], replayed: true }), (found) => found === 0)
        )
        if (missing.length > 0) {
          return yield* Effect.fail({
            message: "Nothing was replayed: some of these dead letters do not exist."
          })
        }
        const { length } = yield* dead.replay({ ids }, { by: "operator of outlast serve" })
        return { replayed: length }
      })
  })

/**
 * Answers what a task waits for. The key names the question that the operator has seen: a task that meanwhile waits for
 * something else refuses the decision.
 */
const decide = (tasks: Tasks.Service): Ops.Action =>
  Ops.action({
    doc: 'Answers what a task waits for: { "task": ID, "key": TEXT, "verdict": { "_tag": "Happened", "result"? } | { "_tag": "DidNot" } | { "_tag": "Approved", "decisions": [BOOLEAN] } }; the section tasks of /api/state has the key as decision.',
    params: Schema.Struct({ task: Schema.String, key: Schema.String, verdict: Verdict }),
    subject: ({ task, verdict }) => `${task} (${verdict._tag})`,
    run: ({ key, task, verdict }) => Effect.as(tasks.decide(task, verdict, key), null)
  })

/** Ends cooldowns. `reset` carries it out. */
export const lift = (
  reset: (which: Targets.Which) => Effect.Effect<Pick<Targets.Lifted, "circuits" | "cooldowns">, Refused>
): Ops.Action =>
  Ops.action({
    doc: 'Ends cooldowns: of a target, a key or a provider, or all: { "target"?, "key"?, "provider"? }.',
    params: Schema.Struct({
      target: Schema.optionalKey(Schema.String),
      key: Schema.optionalKey(Schema.String),
      provider: Schema.optionalKey(Schema.String)
    }),
    subject: ({ key, provider, target }) => target ?? key ?? provider ?? "all",
    run: (which) => Effect.map(reset(which), ({ circuits, cooldowns }) => ({ cooldowns, circuits }))
  })

/** Actions by name. `docs/do/operations.md` lists them. */
export const make = ({
  breaker,
  circuits,
  dead,
  live,
  targets,
  tasks
}: Parts): Readonly<Record<string, Ops.Action>> => {
  const known = (circuit: string): Effect.Effect<void, Refused> =>
    circuits.includes(circuit)
      ? Effect.void
      : Effect.fail({ message: `There is no such circuit. Circuits: ${circuits.join(", ")}.` })
  return {
    ...(dead === undefined ? {} : { replay: replay(dead) }),
    decide: decide(tasks),
    trip: Ops.action({
      doc: 'Opens a circuit: { "circuit": NAME }.',
      params: Circuit,
      subject: ({ circuit }) => circuit,
      run: ({ circuit }) => Effect.as(Effect.andThen(known(circuit), breaker.trip(circuit)), null)
    }),
    reset: Ops.action({
      doc: 'Closes a circuit: { "circuit": NAME }.',
      params: Circuit,
      subject: ({ circuit }) => circuit,
      run: ({ circuit }) => Effect.as(Effect.andThen(known(circuit), breaker.reset(circuit)), null)
    }),
    lift: lift((which) =>
      // A name that the chain does not have.
      Effect.catchDefect(targets.reset(which), (defect) =>
        Effect.fail({ message: defect instanceof RangeError ? defect.message : "It could not be done." })
      )
    ),
    protection: Ops.action({
      doc: 'The kill switch: with { "enabled": false } each call goes once to the first target.',
      params: Schema.Struct({ enabled: Schema.Boolean }),
      subject: ({ enabled }) => (enabled ? "on" : "off"),
      run: ({ enabled }) =>
        Effect.as(
          live.update((settings) => ({ ...settings, enabled })),
          { enabled }
        )
    })
  }
}
