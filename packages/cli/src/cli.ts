/**
 * The `outlast` command and its subcommands.
 */
import { Console, Data, Effect, Runtime } from "effect"
import { Command, Flag } from "effect/cli"
import * as Demo from "./demo/Demo.ts"
import * as Timeline from "./demo/Timeline.ts"

/** The run ended, was reported, and was no success. */
class Unsuccessful extends Data.TaggedError("Unsuccessful")<{}> {
  override readonly [Runtime.errorExitCode] = 1
  override readonly [Runtime.errorReported] = false
}

const demo = Command.make(
  "demo",
  {
    json: Flag.Boolean("json").pipe(
      Flag.withDescription("Print the summary of the second run as one JSON object on the last line"),
      Flag.withDefault(false)
    ),
    plan: Flag.String("plan").pipe(
      Flag.withDescription('A JSON file with the faults: { "faults": [...] }'),
      Flag.optional
    ),
    seed: Flag.Int("seed").pipe(Flag.withDescription("Draw other faults from this number"), Flag.optional),
    provider: Flag.Literals("provider", ["anthropic", "openai", "google"]).pipe(
      Flag.withDescription("Do the job with a real provider; its key must be in the environment"),
      Flag.optional
    ),
    model: Flag.String("model").pipe(
      Flag.withDescription("The model of --provider, if not the usual one"),
      Flag.optional
    )
  },
  Effect.fn(
    function* (options) {
      const done = yield* Demo.run({
        ...options,
        paint: paintFor(process.stdout.isTTY, process.env["NO_COLOR"])
      })
      if (!done) return yield* new Unsuccessful()
    },
    Effect.tapErrorTag("UsageError", (error) => Console.error(`outlast demo: ${error.message}`))
  )
).pipe(
  Command.withDescription(
    "An agent mends a failing test while its providers fail over real HTTP: without Outlast, then with it. Needs no key and no network."
  )
)

/** Colours only on a terminal, and not where they are unwanted. */
const paintFor = (isTerminal: boolean | undefined, noColor: string | undefined): Timeline.Paint =>
  isTerminal === true && (noColor === undefined || noColor === "") ? Timeline.coloured : Timeline.uncoloured

export const outlast = Command.make("outlast").pipe(
  Command.withDescription("Resilience for LLM agents"),
  Command.withSubcommands([demo])
)
