/** The flags of `outlast dlq`. */
import { Effect } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { argument, storeFlags, text } from "../command/Flags.ts"
import { reported } from "../command/Unsuccessful.ts"
import { reasons } from "./Reasons.ts"

// Loaded when a command runs: the start of the others need not wait for it.
const Dlq = Effect.promise(() => import("./Dlq.ts"))

const store = storeFlags("The outbox")
const filter = {
  subject: text("subject").pipe(
    Flag.withDescription('A subject, or a pattern: "*" is one part, ">" the rest'),
    Flag.optional
  ),
  reason: Flag.Literals("reason", reasons).pipe(Flag.withDescription("Why it is dead"), Flag.optional),
  since: text("since").pipe(
    Flag.withDescription("Died since: 30m, 12h, 7d ago, or a date such as 2026-11-23T08:00:00Z"),
    Flag.optional
  ),
  olderThan: text("older-than").pipe(Flag.withDescription("Died before: as --since"), Flag.optional),
  limit: Flag.Int("limit").pipe(Flag.withDescription("At most so many"), Flag.optional)
}
const ids = argument("id").pipe(
  Argument.withDescription("Numbers of dead letters, or ids of their events"),
  Argument.atLeast(0)
)
const everything = Flag.Boolean("all").pipe(
  Flag.withDescription("Every dead letter: needed where no id and no filter is given"),
  Flag.withDefault(false)
)
const dryRun = Flag.Boolean("dry-run").pipe(
  Flag.withDescription("Say how many it would be, and change nothing"),
  Flag.withDefault(false)
)

export const dlq = Command.make("dlq").pipe(
  Command.withDescription(
    "Dead letters of an outbox: events that could not be delivered, which are kept until they are replayed or removed."
  ),
  Command.withSubcommands([
    Command.make(
      "list",
      {
        ...store,
        ...filter,
        replayed: Flag.Boolean("replayed").pipe(
          Flag.withDescription("Also those that were replayed"),
          Flag.withDefault(false)
        )
      },
      (options) =>
        reported(
          Effect.flatMap(Dlq, ({ list }) => list(options)),
          "dlq"
        )
    ).pipe(Command.withDescription("Lists dead letters, the newest first, without their bodies.")),
    Command.make(
      "show",
      {
        ...store,
        id: argument("id").pipe(Argument.withDescription("Number of the dead letter, or id of its event")),
        body: Flag.Boolean("body").pipe(
          Flag.withDescription("Print the body as well, which may hold what is not for everyone"),
          Flag.withDefault(false)
        )
      },
      (options) =>
        reported(
          Effect.flatMap(Dlq, ({ show }) => show(options)),
          "dlq"
        )
    ).pipe(Command.withDescription("Shows one dead letter with its history.")),
    Command.make("replay", { ids, ...store, ...filter, all: everything, dryRun }, (options) =>
      reported(
        Effect.flatMap(Dlq, ({ replay }) => replay(options)),
        "dlq"
      )
    ).pipe(
      Command.withDescription(
        "Puts dead letters back into the outbox, behind what their subjects have stored, all or none. A running outbox publishes them at its next sweep."
      )
    ),
    Command.make("purge", { ids, ...store, ...filter, all: everything, dryRun }, (options) =>
      reported(
        Effect.flatMap(Dlq, ({ purge }) => purge(options)),
        "dlq"
      )
    ).pipe(Command.withDescription("Removes dead letters for good."))
  ])
)
