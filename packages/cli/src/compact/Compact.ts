/**
 * `outlast compact`: reads a transcript and prints a report. With `out` it also writes the transcript, cut to fit, in
 * the same format.
 *
 * The command calls no model, and only cuts what can be cut without one. A transcript that already fits is written
 * unchanged, byte for byte.
 */
import { Console, Data, Effect, FileSystem, Option, Result, Runtime, Stdio, Stream } from "effect"
import type { Path } from "effect"
import { Compaction, CompactionPolicy } from "@outlast/agent"
import { TokenCounter } from "@outlast/agent/compaction"
import type { CompactionError } from "@outlast/agent/compaction"
import { Catalogue, Tokenizers } from "@outlast/providers"
import { unreadable } from "../command/Unreadable.ts"
import { UsageError } from "../command/UsageError.ts"
import * as Report from "./CompactReport.ts"
import * as Detection from "./Detection.ts"
import * as Json from "./Json.ts"
import * as OutputFile from "./OutputFile.ts"
import type { Transcript } from "./Transcript.ts"
import * as LargestMessages from "./LargestMessages.ts"
import * as Utf8 from "./Utf8.ts"

export interface Options {
  /** The transcript. `-` is standard input. */
  readonly file: string
  /** File for the compacted transcript, which may be the input file. */
  readonly out: Option.Option<string>
  /** Tokens of input and output together. Default: the window of the body's model in the catalogue. */
  readonly window: Option.Option<number>
  /** Print the report as one JSON object. */
  readonly json: boolean
}

/** The transcript was read, but cannot be made to fit. Exit code 1. */
export class Unfit extends Data.TaggedError("CannotFit")<{
  readonly message: string
  readonly details: Readonly<Record<string, unknown>>
}> {
  override readonly [Runtime.errorExitCode] = 1
  override readonly [Runtime.errorReported] = false
}

export const run = (
  options: Options
): Effect.Effect<
  void,
  UsageError | Unfit | OutputFile.NotWritten,
  FileSystem.FileSystem | Path.Path | Stdio.Stdio
> =>
  Effect.gen(function* () {
    const { file, json } = options
    const out = Option.getOrUndefined(options.out)
    if (out === "-") return yield* wrong("--out takes a file: standard output has the report.")
    const shown = file === "-" ? "The standard input" : `The file ${file}`
    const text = yield* textOf(file, shown)
    const transcript = yield* transcriptOf(text, shown)
    const info = transcript.model === undefined ? undefined : Catalogue.find(transcript.model)
    const request = yield* requestOf(transcript, info, options.window)
    const counter = yield* counterFor(info)
    const { prompt, report } = yield* fitted(transcript, request, shown).pipe(
      Effect.provideService(TokenCounter.TokenCounter, counter)
    )
    const body = report.tier === "none" ? undefined : transcript.write(prompt)
    if (out !== undefined) yield* OutputFile.write(out, body === undefined ? text : Json.written(body, text))
    const messages = body?.[transcript.list]
    const size = Array.isArray(messages) ? messages.length : transcript.size
    yield* Console.log(
      json
        ? JSON.stringify(Report.summary(transcript, report))
        : Report.lines(file, transcript, report, {
            size,
            file: out,
            tokenizer: info?.counting?.encoding
          }).join("\n")
    )
  })

const wrong = (message: string, details?: UsageError["details"]) =>
  Effect.fail(new UsageError({ message, details }))

// -----------------------------------------------------------------------------
// Reading
// -----------------------------------------------------------------------------

const textOf = (
  file: string,
  shown: string
): Effect.Effect<string, UsageError, FileSystem.FileSystem | Stdio.Stdio> =>
  Effect.gen(function* () {
    if (file !== "-") return yield* (yield* FileSystem.FileSystem).readFile(file)
    return yield* Stream.mkUint8Array((yield* Stdio.Stdio).stdin)
  }).pipe(
    Effect.mapError((error) => unreadable(shown, error)),
    Effect.flatMap((bytes) => {
      const text = Utf8.decode(bytes)
      return Result.isSuccess(text)
        ? Effect.succeed(text.success)
        : wrong(`${shown} is not UTF-8: see line ${text.failure}.`)
    })
  )

/** Parses a text as a transcript. */
const transcriptOf = (text: string, shown: string): Effect.Effect<Transcript, UsageError> => {
  if (text.trim() === "") return wrong(`${shown} is empty. Expected a transcript in JSON.`)
  const body = Json.parse(text.replace(/^\ufeff/, ""))
  if (Result.isFailure(body)) {
    const { line, column, problem } = body.failure
    const where = `line ${line}, column ${column}`
    const said = {
      wrong: `is not JSON: see ${where}`,
      ended: `is not JSON: it ends too early, at ${where}`,
      deep: "is nested too deeply"
    }
    return wrong(`${shown} ${said[problem]}.`, { line, column })
  }
  const read = Detection.read(body.success)
  if (Result.isSuccess(read)) return Effect.succeed(read.success)
  const { path, problem } = read.failure
  return path === ""
    ? wrong(`${shown} is not a transcript. ${problem}`)
    : wrong(`${shown} is broken at ${path}: ${problem}.`, { path })
}

// -----------------------------------------------------------------------------
// Fitting
// -----------------------------------------------------------------------------

/** Returns the limits that the transcript must fit. */
const requestOf = (
  { model, tools, outputLimit }: Transcript,
  info: Catalogue.CatalogueEntry | undefined,
  stated: Option.Option<number>
): Effect.Effect<Compaction.Request, UsageError> => {
  const window = Option.getOrElse(stated, () => info?.contextWindow)
  if (window === undefined) {
    const why = model === undefined ? "the transcript names no model" : `nothing is known of "${model}"`
    return wrong(`How large is the window? ${why}. Say it in tokens: --window 200000.`)
  }
  if (window < 1) return wrong(`--window must be at least 1, got ${window}.`)
  const answer = outputLimit?.tokens ?? 0
  const { maxAnswer, reserve } = CompactionPolicy.defaults
  // A smaller window than the model's own is a budget, of which the answer gets only a share.
  const modelWindow = info?.contextWindow !== undefined && window >= info.contextWindow
  const kept = modelWindow ? answer : Math.min(answer, Math.floor(maxAnswer * window))
  // Counted like in compaction, in whole tokens.
  if (Math.floor(window - kept - reserve * window) < 1) {
    const beside =
      outputLimit === undefined
        ? "for a conversation"
        : `beside an answer of ${answer}, which ${outputLimit.field} allows`
    return wrong(`A window of ${window} tokens has no room ${beside}.`)
  }
  return Effect.succeed({
    window,
    outputLimit: answer,
    modelWindow,
    tools,
    model,
    bindsThinking: info?.capabilities.bindsThinking
  })
}

/** Returns the token counter: the tokenizer of the model if it is public. Only that one is loaded. */
const counterFor = (info: Catalogue.CatalogueEntry | undefined): Effect.Effect<TokenCounter.Service> => {
  const encoding = info?.counting?.encoding
  // Never fails, because the tokenizers are dependencies of the command.
  return Effect.orDie(Tokenizers.make({ encodings: encoding === undefined ? [] : [encoding] }))
}

/** Number of messages at the end of the body that are kept. */
const tail = 4

/**
 * Returns the policy for a transcript: the tiers that need no model, and its last messages. Their number in the prompt
 * may differ from that in the body.
 */
export const policyFor = ({ prompt, sources, size }: Transcript): CompactionPolicy.CompactionPolicy => {
  const first = prompt.content.findIndex((message) => (sources.lastIndexOf(message) ?? -1) >= size - tail)
  const messages = first < 0 ? 1 : prompt.content.length - first
  return { ...CompactionPolicy.defaults, tiers: ["cap", "strip", "plain"], tail: { messages } }
}

const fitted = (transcript: Transcript, request: Compaction.Request, shown: string) =>
  Effect.gen(function* () {
    const compaction = yield* Compaction.make({ policy: policyFor(transcript) })
    return yield* compaction.fit(transcript.prompt, request)
  }).pipe(
    Effect.scoped,
    Effect.catch((error) =>
      Effect.gen(function* () {
        const meter = (yield* TokenCounter.TokenCounter).for(transcript.model)
        const where = LargestMessages.largest(transcript, policyFor(transcript), meter)
        return yield* new Unfit({
          message: [`${shown} cannot be made to fit. ${error.message}`, ...where].join("\n"),
          details: detailsOf(error)
        })
      })
    )
  )

/** The numbers of an error. Its message has them as text. */
const detailsOf = (error: CompactionError.CannotFit | CompactionError.ContextExhausted): Unfit["details"] => {
  const { window, limit, arithmetic, tokens } = error
  const sizes = { window, limit, arithmetic, tokens }
  return error._tag === "CannotFit"
    ? { ...sizes, smallest: error.smallest, uncuttable: error.uncuttable }
    : { ...sizes, times: error.times }
}
