/** Carries out the commands of the chat. Each returns true, or false for a mistake of the user. */
import { Clock, Effect, Exit, Ref } from "effect"
import type { Command, View } from "./Command.ts"
import * as Model from "./Model.ts"
import { unknown } from "./Nearest.ts"
import type { State } from "./State.ts"
import * as Views from "./Views.ts"

const said = ({ terminal }: State, ...lines: ReadonlyArray<string>) => Effect.as(terminal.lines(lines), true)
const mistaken = ({ terminal }: State, message: string) => Effect.as(terminal.aside(message), false)

const noCircuits = ({ preset }: Model.Model): string =>
  `Preset ${preset} has no circuits. /preset lists the presets that have some.`

const circuitLines = (model: Model.Model) => {
  const { breaker, circuits } = model
  if (breaker === undefined) return Effect.succeed([noCircuits(model)])
  return Effect.map(Effect.forEach(circuits, breaker.state), Views.circuits)
}

const view = (state: State, name: View): Effect.Effect<ReadonlyArray<string>> =>
  Effect.gen(function* () {
    const model = yield* Ref.get(state.model)
    switch (name) {
      case "profiles":
        return Views.profiles(yield* model.targets.list, yield* Clock.currentTimeMillis)
      case "cooldowns":
        return Views.cooldowns(yield* model.targets.list)
      case "circuits":
        return yield* circuitLines(model)
      case "fallback":
        return Views.fallback(yield* model.targets.list)
      case "stats":
        return Views.stats((yield* Ref.get(state.journal)).stats, model.maxTurns)
      case "why":
        return Views.why((yield* Ref.get(state.journal)).why, yield* model.targets.list)
      case "guard":
        return Views.guard(yield* Ref.get(state.report))
      case "events":
        return Views.events(yield* Ref.get(state.journal))
      case "help":
        return Views.help
      case "presets":
        return Views.presetList(model.preset)
    }
  })

const simulate = (state: State, reason: string, times: number) =>
  Effect.gen(function* () {
    // The parser has checked the reason.
    yield* Effect.orDie(state.simulated.arm(reason, { times }))
    const next = times === 1 ? "The next attempt fails" : `The next ${times} attempts fail`
    return yield* said(state, `${next} with ${reason}. Send a message to see the recovery.`)
  })

const trip = (state: State, name: string) =>
  Effect.gen(function* () {
    const model = yield* Ref.get(state.model)
    const { breaker, circuits, circuitNamed } = model
    if (breaker === undefined) return yield* mistaken(state, noCircuits(model))
    const circuit = circuitNamed(name)
    if (circuit === undefined) {
      return yield* mistaken(state, unknown("a circuit", name, circuits, "Circuits"))
    }
    yield* breaker.trip(circuit)
    return yield* said(state, ...Views.circuits([yield* breaker.state(circuit)]))
  })

const reset = (state: State, name: string) =>
  Effect.gen(function* () {
    const { breaker, circuits, names, targets } = yield* Ref.get(state.model)
    const refs = (yield* targets.list).map(({ target }) => target)
    const which =
      name === "all"
        ? {}
        : refs.some(({ provider }) => provider === name)
          ? { provider: name }
          : refs.some(({ key }) => key === name)
            ? { key: name }
            : refs.some(({ id }) => id === name)
              ? { target: name }
              : undefined
    if (which === undefined) {
      if (breaker !== undefined && circuits.includes(name)) {
        yield* breaker.reset(name)
        return yield* said(state, `Circuit ${name} is closed.`)
      }
      return yield* mistaken(state, unknown("known here", name, names, "Names"))
    }
    const lifted = yield* targets.reset(which)
    const closed = lifted.circuits.length === 0 ? "no circuit" : lifted.circuits.join(", ")
    return yield* said(state, `Ended ${lifted.cooldowns} cooldowns, closed ${closed}.`)
  })

const compact = (state: State) =>
  Effect.gen(function* () {
    const { compaction, preset, context } = yield* Ref.get(state.model)
    if (compaction === undefined) return yield* mistaken(state, `Preset ${preset} has no compaction.`)
    const prompt = yield* Ref.get(state.conversation)
    const fit = (window: number) =>
      Effect.provideContext(compaction.fit(prompt, { window, conversation: "/compact" }), context)
    const exit = yield* Effect.exit(
      // A window of the size of the conversation is full, so that it is compacted.
      Effect.flatMap(fit(measuring), ({ report }) => fit(Math.max(1, report.tokensBefore)))
    )
    if (Exit.isFailure(exit)) {
      return yield* said(state, "There is nothing to compact yet: the conversation is short.")
    }
    const { prompt: shorter, report } = exit.value
    yield* Ref.set(state.conversation, shorter)
    return yield* said(
      state,
      `Compacted (${report.tier}): ${report.tokensBefore} → ${report.tokensAfter} tokens, ${prompt.content.length} → ${shorter.content.length} messages.`
    )
  })

/** A window in which every conversation fits, to count its tokens. */
const measuring = 1_000_000_000

const usePreset = (state: State, preset: Model.Model["preset"]) =>
  Effect.gen(function* () {
    const before = yield* Ref.get(state.model)
    const exit = yield* Effect.exit(Model.build(preset, state.chain, state.note))
    if (Exit.isFailure(exit)) {
      return yield* mistaken(state, Model.problemOf(preset, exit.cause))
    }
    yield* Ref.set(state.model, exit.value)
    yield* before.close
    return yield* said(
      state,
      `Preset ${preset}. The conversation goes on; cooldowns and circuits begin anew.`
    )
  })

/** Carries out a command that is not a message. */
export const run = (
  state: State,
  command: Exclude<Command, { readonly _tag: "Message" | "Quit" }>
): Effect.Effect<boolean> => {
  switch (command._tag) {
    case "Nothing":
      return Effect.succeed(true)
    case "Mistake":
      return mistaken(state, command.message)
    case "Show":
      return Effect.flatMap(view(state, command.view), (lines) => said(state, ...lines))
    case "Simulate":
      return simulate(state, command.reason, command.times)
    case "Trip":
      return trip(state, command.name)
    case "Reset":
      return reset(state, command.name)
    case "Compact":
      return compact(state)
    case "UsePreset":
      return usePreset(state, command.preset)
  }
}
