/**
 * `outlast chat`: a conversation with a resilient agent, whose recovery can be watched, and broken on purpose.
 *
 * In a terminal Ctrl-C cancels an answer, and Ctrl-D ends the chat. In a pipe each line is a message or a command, and
 * the end of the input ends the chat.
 */
import { Cause, Effect, FileSystem, Logger, Ref } from "effect"
import { Prompt } from "effect/ai"
import type { SafetyGuard } from "@outlast/agent"
import { Registry } from "@outlast/providers"
import { ResilienceEvents, Warnings } from "@outlast/resilience"
import { SimulatedFailure } from "@outlast/testing"
import type { Preset } from "../explain/PresetName.ts"
import { unreadable } from "../command/Unreadable.ts"
import { UsageError } from "../command/UsageError.ts"
import { answer } from "./Answer.ts"
import * as Command from "./Command.ts"
import * as Control from "./Control.ts"
import type { Chain } from "./FakeChain.ts"
import * as FakeChain from "./FakeChain.ts"
import * as Journal from "./Journal.ts"
import * as Model from "./Model.ts"
import type { State } from "./State.ts"
import * as Terminal from "./Terminal.ts"
import * as Workspace from "./Workspace.ts"

export interface Options {
  readonly preset: Preset
  /** Use the real providers whose keys are set. */
  readonly real: boolean
  /** The folder that the model may read. Default: sample files on the fake providers, otherwise none. */
  readonly folder: string | undefined
}

/** Milliseconds before each word of a fake answer, in a terminal. */
const pace = 12

const real: Effect.Effect<Chain, UsageError> = Effect.mapError(
  Registry.detect,
  ({ message }) => new UsageError({ message: `--real needs a key. ${message}` })
)

/** Shows what is logged, e.g. a window that is not known. */
const loggerTo = ({ log }: Terminal.Terminal) =>
  Logger.make<unknown, void>(({ message }) => log([message].flat().map(String).join(" ")))

/** Reads lines until the end of the input. False when a message failed, or a line was not understood. */
const talk = (state: State) =>
  Effect.gen(function* () {
    const { terminal } = state
    let isGood = true
    for (;;) {
      const model = yield* Ref.get(state.model)
      const line = yield* terminal.read((typed) => Command.complete(typed, model))
      if (line === undefined) {
        if (terminal.isTerminal) yield* terminal.lines([""])
        return isGood
      }
      const command = Command.parse(line)
      if (command._tag === "Quit") return isGood
      const done =
        command._tag === "Message"
          ? answer(state, command.text)
          : Effect.raceFirst(Control.run(state, command), Effect.as(terminal.interrupted, false))
      // A defect ends what was asked, and not the chat.
      const isDone = yield* Effect.catchCause(done, (cause) =>
        Cause.hasInterrupts(cause)
          ? Effect.interrupt
          : Effect.as(terminal.aside(`✗ This should not happen: ${Cause.pretty(cause)}`), false)
      )
      isGood &&= isDone
    }
  })

const greeting = ({ real, preset }: Options): ReadonlyArray<string> => [
  `${real ? "Real providers" : "Fake providers on this machine"}, preset ${preset}. /help lists the commands, Ctrl-D ends the chat.`
]

/**
 * Runs the chat to its end. False when it was read from a pipe, and a message failed or a line was not understood.
 * Fails with a `UsageError` when no key is set for real providers.
 */
export const run = (options: Options) =>
  Effect.scoped(
    Effect.gen(function* () {
      const terminal = yield* Terminal.make
      const offered = options.real ? yield* real : yield* FakeChain.make(terminal.isTerminal ? pace : 0)
      const simulated = yield* SimulatedFailure.make
      const [first, ...rest] = offered
      const chain: Chain = [simulated.target(first), ...rest.map((target) => simulated.target(target))]
      const folder = yield* folderOf(options)
      const journal = yield* Ref.make(Journal.empty)
      const noting = (show: Terminal.Terminal["aside"]) => (line: string) =>
        Effect.andThen(
          Ref.update(journal, (before) => Journal.wrote(before, line)),
          show(line)
        )
      const note = noting(terminal.aside)
      const watch = ResilienceEvents.layerHandler((event) => {
        const line = Journal.lineOf(event)
        const seen = Ref.update(journal, (before) => Journal.saw(before, event))
        if (line === undefined) return seen
        const show = Journal.isLate(event) ? terminal.later : terminal.aside
        return Effect.andThen(seen, noting(show)(line))
      })
      const talking = Effect.gen(function* () {
        const built = yield* Effect.acquireRelease(
          Effect.flatMap(opened(options.preset, chain, note), Ref.make),
          (model) => Effect.flatMap(Ref.get(model), ({ close }) => close)
        )
        const state: State = {
          terminal,
          note,
          chain,
          simulated,
          journal,
          model: built,
          conversation: yield* Ref.make(Prompt.empty),
          report: yield* Ref.make<SafetyGuard.Report | undefined>(undefined)
        }
        if (terminal.isTerminal) yield* terminal.lines(greeting(options))
        const isGood = yield* talk(state)
        return isGood || terminal.isTerminal
      })
      return yield* Effect.provide(Effect.scoped(talking), [
        Workspace.layer(folder),
        watch,
        Warnings.layerOff,
        Logger.layer([loggerTo(terminal)])
      ])
    })
  )

/** The first model. It cannot be built when no key is good, or FALLBACK_MODEL_ID names no model of the chain. */
const opened = (preset: Preset, chain: Chain, note: State["note"]) =>
  Effect.catchCause(Model.build(preset, chain, note), (cause) =>
    Cause.hasInterrupts(cause)
      ? Effect.interrupt
      : Effect.fail(new UsageError({ message: Model.problemOf(preset, cause) }))
  )

/** The folder that the model may read. Links in its path are followed here, so that links in it can be told. */
const folderOf = ({ folder, real }: Options) =>
  Effect.gen(function* () {
    if (folder === undefined) return real ? undefined : yield* Workspace.sample
    const fs = yield* FileSystem.FileSystem
    return yield* fs.realPath(folder).pipe(
      Effect.tap(fs.readDirectory),
      Effect.mapError((error) => unreadable(`The folder ${folder}`, error))
    )
  })
