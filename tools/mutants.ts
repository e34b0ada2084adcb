/**
 * What `npm run mutation -- NAME` mutates, and the tests that have to notice. `machines` are pure; their mutants must all
 * die. `shells` join modules to each other and to the outside; a group of them takes an hour or more, so it is a nightly
 * command. A name of a group or of one file (`CallRun`) selects.
 */
import { basename } from "node:path"

export interface Mutants {
  readonly mutate: ReadonlyArray<string>
  /** Test files, as globs. */
  readonly tests: ReadonlyArray<string>
}

const agent = "packages/agent/src"
const decide = `${agent}/failover/decide`
const resilience = "packages/resilience/src"

/** The files of the call machine that decide about attempts. */
const machine = [
  "AfterFailure",
  "AnswerSoFar",
  "CallLimits",
  "CallLog",
  "CallState",
  "CutAnswer",
  "Delays",
  "MidStream",
  "Remedy",
  "Sending",
  "State",
  "Waiting"
]

/** Their tests. Without the model test: it plays its calls once, when its module is loaded, so it never sees a mutant. */
const steps = [
  "packages/agent/test/failover/{AnswerSoFar,BlockedTimes,CallLog,CallSteps,Cooldown,Delays,Openings,PreferredTarget}.test.ts"
]

/** One shell, and the folders of its tests. */
const shell = (mutate: string, ...folders: ReadonlyArray<string>): Mutants => ({
  mutate: [`packages/${mutate}.ts`],
  tests: folders.map((folder) => (folder.endsWith(".ts") ? folder : `${folder}/**/*.test.ts`))
})

const groups: Readonly<Record<string, ReadonlyArray<Mutants>>> = {
  machines: [
    {
      mutate: [
        `${resilience}/breaker/CircuitState.ts`,
        `${resilience}/breaker/CircuitCounts.ts`,
        `${resilience}/Backoff.ts`,
        `${resilience}/retry/RetryBudgetState.ts`
      ],
      tests: [
        "packages/resilience/test/breaker/Circuit{State,Counts}.test.ts",
        "packages/resilience/test/{Backoff,retry/RetryBudgetState}.test.ts"
      ]
    }
  ],
  call: [
    {
      mutate: [...machine.map((name) => `${decide}/${name}.ts`), `${agent}/failover/chain/RetryQueue.ts`],
      tests: [...steps, "packages/agent/test/failover/RetryQueue.test.ts"]
    }
  ],
  choice: [
    {
      mutate: [
        `${decide}/Openings.ts`,
        `${decide}/BlockedTimes.ts`,
        `${decide}/NextCooldown.ts`,
        `${decide}/Cooldown.ts`,
        `${agent}/guard/GuardState.ts`
      ],
      tests: [...steps, "packages/agent/test/guard/{GuardLimits,GuardState}.test.ts"]
    }
  ],
  shells: [
    shell("agent/src/loop/Interpreter", "packages/agent/test/loop"),
    shell("agent/src/failover/call/CallRun", "packages/agent/test/failover", "test/scenarios"),
    shell("agent/src/guard/GuardedTool", "packages/agent/test/guard"),
    shell("agent/src/guard/Branch", "packages/agent/test/guard", "packages/agent/test/loop"),
    shell("providers/src/aisdk/ToAiSdk", "packages/providers/test", "test/hostile/ai-sdk.test.ts"),
    shell("providers/src/aisdk/StaleSocket", "packages/providers/test/connection.test.ts", "test/hostile"),
    shell("delivery/src/outbox/Publish", "packages/delivery/test"),
    shell("delivery/src/nats/NatsBus", "packages/delivery/test"),
    shell("delivery/src/store/sql/SqlStore", "packages/delivery/test"),
    shell("tasks/src/store/sql/SqlStore", "packages/tasks/test"),
    shell("node/src/ops/EventFeed", "packages/node/test/ops"),
    shell("node/src/host/HostService", "packages/node/test/host")
  ]
}

/** The mutants of a group, or of one file of it. Every group when `name` is neither. */
export const select = (name: string): ReadonlyArray<Mutants> =>
  groups[name] ??
  Object.values(groups)
    .flat()
    .flatMap(({ mutate, tests }) => {
      const files = mutate.filter((file) => basename(file, ".ts") === name)
      return files.length === 0 ? [] : [{ mutate: files, tests }]
    })

export const names: ReadonlyArray<string> = Object.keys(groups)
