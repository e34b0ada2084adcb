/**
 * `outlast explain`: classifies one error with evidence, and shows a policy's decisions about it, attempt by attempt.
 * For a preset it also lists where it differs from the document of its system, alone when there is no error.
 */
import { Console, Effect, FileSystem, Option, Result, Stdio, Stream } from "effect"
import { ProviderFailure, RecoveryPolicy } from "@outlast/agent"
import * as ErrorCase from "../classify/cases/ErrorCase.ts"
import * as Verdict from "../classify/Verdict.ts"
import { unreadable } from "../command/Unreadable.ts"
import { UsageError } from "../command/UsageError.ts"
import { deviationsOf, presets } from "./Preset.ts"
import { isPreset, presetNames } from "./PresetName.ts"
import type { Preset } from "./PresetName.ts"
import * as Rehearsal from "./Rehearsal.ts"

export interface Options {
  /** A JSON file with the error. Standard input when it is `-`, or when neither it nor a part of an error is given. */
  readonly error: Option.Option<string>
  readonly status: Option.Option<number>
  readonly code: Option.Option<string>
  readonly message: Option.Option<string>
  readonly provider: Option.Option<string>
  /** Any number of headers, as `name: value`. */
  readonly header: ReadonlyArray<string>
  readonly preset: string
  /** Keys of each model. With this or `models` one chain is shown, else {@link defaultShapes}. */
  readonly keys: Option.Option<number>
  readonly models: Option.Option<number>
  readonly json: boolean
}

/** The chains that are shown by default. */
const defaultShapes: ReadonlyArray<Rehearsal.Shape> = [
  { keys: 1, models: 1 },
  { keys: 2, models: 1 },
  { keys: 1, models: 2 }
]

/** Upper limit for keys and models. More would show nothing new. */
const most = 10

export const run = (options: Options) =>
  Effect.gen(function* () {
    const { preset } = options
    if (!isPreset(preset)) {
      return yield* wrong(`Unknown preset "${preset}". Known presets: ${presetNames.join(", ")}.`)
    }
    const shapes = yield* shapesOf(options)
    const given = yield* caseOf(options)
    const deviations = deviationsOf(preset)
    if (given === undefined) {
      const text = options.json ? JSON.stringify({ preset, deviations }) : deviationLines(preset).join("\n")
      yield* Console.log(text)
      return
    }
    const failure = Verdict.failureOf(given)
    const policy = presets[preset]
    const chains = shapes.map((shape) => ({
      ...shape,
      steps: Rehearsal.run(policy, failure, given.provider ?? "provider-1", shape)
    }))
    if (options.json) {
      yield* Console.log(
        JSON.stringify({
          verdict: Verdict.fromFailure(given.id, failure),
          happened: ProviderFailure.whatHappened(failure),
          advice: ProviderFailure.whatToDo(failure),
          preset,
          class: policy.classOf(failure),
          deviations,
          chains: chains.map(({ keys, models, steps }) => ({
            keys,
            models,
            attempts: Rehearsal.attemptsOf(steps),
            tookMs: Rehearsal.tookOf(steps),
            steps
          }))
        })
      )
    } else {
      const lines = [
        ...verdictLines(given, failure),
        "",
        `Policy ${preset}, if every attempt fails like this, and at once:`,
        `  ${ruleLine(preset, failure)}`,
        ...chains.flatMap(chainLines),
        ...(deviations.length === 0 ? [] : ["", ...deviationLines(preset)])
      ]
      yield* Console.log(lines.join("\n"))
    }
  })

const wrong = (message: string) => Effect.fail(new UsageError({ message }))

const shapesOf = ({ keys, models }: Options): Effect.Effect<ReadonlyArray<Rehearsal.Shape>, UsageError> => {
  if (Option.isNone(keys) && Option.isNone(models)) return Effect.succeed(defaultShapes)
  const shape = { keys: Option.getOrElse(keys, () => 1), models: Option.getOrElse(models, () => 1) }
  for (const [name, n] of Object.entries(shape)) {
    if (n < 1 || n > most) return wrong(`--${name} must be from 1 to ${most}, got ${n}.`)
  }
  return Effect.succeed([shape])
}

const howTo =
  "Give it as JSON (outlast explain < error.json, or --error error.json) or in parts (--status 429 --message ...)."

/** Reads the error to explain; `undefined` when there is none, and the preset alone can be described. */
const caseOf = (options: Options) =>
  Effect.gen(function* () {
    const { status, code, message, provider, header } = options
    const headers: Record<string, string> = {}
    for (const [index, line] of header.entries()) {
      const colon = line.indexOf(":")
      // Without a colon, the text may be a secret value, so it is not repeated.
      if (colon < 1) {
        return yield* wrong(
          `--header wants NAME: VALUE; number ${index + 1} of ${header.length} has no name.`
        )
      }
      headers[line.slice(0, colon).trim()] = line.slice(colon + 1).trim()
    }
    const parts = JSON.stringify({
      ...(Option.isSome(status) ? { status: status.value } : {}),
      ...(Option.isSome(code) ? { code: code.value } : {}),
      ...(Option.isSome(message) ? { message: message.value } : {}),
      ...(Option.isSome(provider) ? { provider: provider.value } : {}),
      ...(header.length > 0 ? { headers } : {})
    })
    const inParts = parts !== "{}"
    if (inParts && Option.isSome(options.error)) {
      return yield* wrong("Give either --error, or the parts of the error, not both.")
    }
    const text = inParts ? parts : yield* textOf(options.error)
    if (text === undefined || text.trim() === "") {
      const isAlone = isPreset(options.preset) && deviationsOf(options.preset).length > 0
      return isAlone ? undefined : yield* wrong(`No error to explain. ${howTo}`)
    }
    const read = ErrorCase.parse(text)
    return Result.isSuccess(read) ? read.success : yield* wrong(`The error ${read.failure}`)
  })

const textOf = (
  file: Option.Option<string>
): Effect.Effect<string | undefined, UsageError, FileSystem.FileSystem | Stdio.Stdio> =>
  Effect.gen(function* () {
    if (Option.isSome(file) && file.value !== "-") {
      const fs = yield* FileSystem.FileSystem
      return yield* Effect.mapError(fs.readFileString(file.value), (error) =>
        unreadable(`The file ${file.value}`, error)
      )
    }
    const stdio = yield* Stdio.Stdio
    if (Option.isNone(file) && (yield* stdio.stdinIsTerminal)) return undefined
    return yield* stdio.stdin.pipe(
      Stream.decodeText(),
      Stream.mkString,
      Effect.mapError((error) => unreadable("The standard input", error))
    )
  })

const deviationLines = (preset: Preset): ReadonlyArray<string> => [
  `Differences of ${preset} from the document of its system:`,
  ...deviationsOf(preset).map((deviation) => `  - ${deviation}`)
]

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)

const signals: { readonly [S in ProviderFailure.Evidence["signal"]]: string } = {
  status: "the HTTP status",
  code: "the error code",
  header: "a response header",
  body: "a field of the body",
  text: "the text",
  cause: "the cause",
  local: "a limit of ours"
}

const verdictLines = (
  given: ErrorCase.Case,
  failure: ProviderFailure.ProviderFailure
): ReadonlyArray<string> => {
  const { rule, signal, matched, depth } = failure.evidence
  const { reason, retryAfterMs } = Verdict.fromFailure(given.id, failure)
  const where = depth === 0 ? "of the error itself" : `of its cause, ${depth} deep`
  const seen = matched === undefined ? "" : `: ${JSON.stringify(matched)}`
  const because =
    rule === "none" ? "no rule knows it" : `rule ${rule} decided by ${signals[signal]} ${where}${seen}`
  return [
    `${capital(ProviderFailure.whatHappened(failure))}.`,
    `  reason   ${reason}`,
    `  because  ${because}`,
    `  wait     ${retryAfterMs === null ? "none was named" : `${Rehearsal.time(retryAfterMs)}, says the provider`}`,
    `  to do    ${ProviderFailure.whatToDo(failure)}`
  ]
}

/** Describes the policy's row in words. */
const ruleLine = (preset: Preset, failure: ProviderFailure.ProviderFailure): string => {
  const policy = presets[preset]
  const { then, attempts, switchAfter, to } = RecoveryPolicy.rowOf(policy, failure)
  const elsewhere =
    to === "next"
      ? "another target"
      : to === "other-model"
        ? "another model"
        : to === "other-dialect"
          ? "a target of another wire format"
          : to.length === 0
            ? undefined
            : to.join(" or ")
  const left = switchAfter === undefined ? "then" : `after ${switchAfter} in a row`
  const means = {
    retry: `up to ${attempts} attempts at one target${elsewhere === undefined ? ", nowhere else" : `, ${left} ${elsewhere}`}`,
    move: `not repeated at the same target${to === "other-dialect" ? `, but at ${elsewhere}` : ""}`,
    grow: "only a target with a larger window can help",
    stop: "it would fail everywhere, so nothing is repeated"
  }[then]
  return `class ${policy.classOf(failure)}: ${means}`
}

const plural = (n: number, word: string): string => `${n} ${word}${n === 1 ? "" : "s"}`

const chainLines = ({
  keys,
  models,
  steps
}: Rehearsal.Shape & { readonly steps: ReadonlyArray<Rehearsal.Step> }): ReadonlyArray<string> => [
  "",
  `${plural(models, "model")}, ${plural(keys, "key")}${models === 1 ? "" : " each"}: ${plural(Rehearsal.attemptsOf(steps), "attempt")} in ${Rehearsal.time(Rehearsal.tookOf(steps))}`,
  ...steps.map((step) => `${(step.at / 1_000).toFixed(1).padStart(8)}s  ${Rehearsal.lineOf(step)}`)
]
