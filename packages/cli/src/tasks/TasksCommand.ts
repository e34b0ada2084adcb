/** The flags of `outlast tasks`. */
import { Effect } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { argument, storeFlags, text } from "../command/Flags.ts"
import { reported } from "../command/Unsuccessful.ts"
import { states } from "./TaskStates.ts"

// Loaded when a command runs: the start of the others need not wait for it.
const Tasks = Effect.promise(() => import("./Tasks.ts"))

const store = storeFlags("Where the tasks are")
const id = argument("id").pipe(Argument.withDescription("Id of the task: agent/key"))
const ids = id.pipe(Argument.atLeast(1))

export const tasks = Command.make("tasks").pipe(
  Command.withDescription("Durable tasks: agent runs that go on after a crash, a deploy or an outage."),
  Command.withSubcommands([
    Command.make(
      "list",
      {
        ...store,
        state: Flag.Literals("state", states).pipe(
          Flag.withDescription("Only tasks in this state; can be given again"),
          Flag.atLeast(0)
        ),
        task: text("task").pipe(Flag.withDescription("Only tasks of this agent"), Flag.optional),
        limit: Flag.Int("limit").pipe(Flag.withDescription("At most so many. Default 50"), Flag.optional)
      },
      (options) =>
        reported(
          Effect.flatMap(Tasks, ({ list }) => list(options)),
          "tasks"
        )
    ).pipe(Command.withDescription("Lists tasks, the newest first.")),
    Command.make(
      "show",
      {
        ...store,
        id,
        answer: Flag.Boolean("answer").pipe(
          Flag.withDescription("Print the answer as well, which may hold what is not for everyone"),
          Flag.withDefault(false)
        )
      },
      (options) =>
        reported(
          Effect.flatMap(Tasks, ({ show }) => show(options)),
          "tasks"
        )
    ).pipe(Command.withDescription("Shows one task: its state, what it waits for, and how it ended.")),
    Command.make("watch", { ...store, id }, (options) =>
      reported(
        Effect.flatMap(Tasks, ({ watch }) => watch(options)),
        "tasks"
      )
    ).pipe(
      Command.withDescription("Prints each change of a task until it ends. Ends with 1 unless it is done.")
    ),
    Command.make("cancel", { ...store, ids }, (options) =>
      reported(
        Effect.flatMap(Tasks, ({ cancel }) => cancel(options)),
        "tasks"
      )
    ).pipe(Command.withDescription("Cancels tasks, also while a tool runs.")),
    Command.make("resume", { ...store, ids }, (options) =>
      reported(
        Effect.flatMap(Tasks, ({ resume }) => resume(options)),
        "tasks"
      )
    ).pipe(Command.withDescription("Continues failed or cancelled tasks from their conversations.")),
    Command.make(
      "decide",
      {
        ...store,
        id,
        key: text("key").pipe(
          Flag.withDescription(
            "Key of the effect in doubt, or ids of the calls that wait (a,b): the decision is refused if the task waits for another one by now. outlast tasks show prints it"
          ),
          Flag.optional
        ),
        happened: Flag.Boolean("happened").pipe(
          Flag.withDescription("The effect has happened"),
          Flag.withDefault(false)
        ),
        didNot: Flag.Boolean("did-not").pipe(
          Flag.withDescription("The effect has not happened and cannot happen any more: it is done now"),
          Flag.withDefault(false)
        ),
        result: text("result").pipe(
          Flag.withDescription("JSON that the tool would have returned, with --happened"),
          Flag.optional
        ),
        approve: text("approve").pipe(
          Flag.withDescription("yes or no for each call that waits for approval: yes,no"),
          Flag.optional
        )
      },
      (options) =>
        reported(
          Effect.flatMap(Tasks, ({ decide }) => decide(options)),
          "tasks"
        )
    ).pipe(Command.withDescription("Answers what a task waits for, so that it goes on.")),
    Command.make(
      "prune",
      {
        ...store,
        olderThan: text("older-than").pipe(
          Flag.withDescription("Ended before: 12h, 30d ago, or a date such as 2026-11-23T08:00:00Z")
        )
      },
      (options) =>
        reported(
          Effect.flatMap(Tasks, ({ prune }) => prune(options)),
          "tasks"
        )
    ).pipe(
      Command.withDescription("Removes tasks that ended, with their history. Their keys can be used again.")
    )
  ])
)
