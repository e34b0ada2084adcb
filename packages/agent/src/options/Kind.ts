/**
 * Checks for `Options.fields` that several modules of the agent share: values of effect/ai and of Outlast itself.
 * The error for a value of the wrong kind names its kind, e.g. "got a Layer" where a service belongs.
 *
 * Messages never show the content of an object.
 */
import { Context, Duration, Effect, Layer, Stream } from "effect"
import { Prompt, Tool } from "effect/ai"
import { Backoff, InvalidOption } from "@outlast/resilience"
import { Options } from "@outlast/resilience"
import { holdsKey, isKey } from "../secrets/KeyForm.ts"

const { is } = Options

// -----------------------------------------------------------------------------
// Kinds of values
// -----------------------------------------------------------------------------

/** True for a value whose properties can be read. */
export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null

/** True for a string with more than white space. */
const isText = (value: unknown): boolean => typeof value === "string" && value.trim() !== ""

const has = (value: unknown, ...members: ReadonlyArray<string>): boolean =>
  (isObject(value) || typeof value === "function") && members.every((member) => member in value)

const isModel = (value: unknown): boolean => has(value, "generateText", "generateObject", "streamText")

/** True for a model as the provider packages of the AI SDK give it. */
export const isAiSdkModel = (value: unknown): boolean => has(value, "doGenerate", "doStream")

const isToolkit = (value: unknown): boolean => has(value, "tools", "toLayer")

const isTool = (value: unknown): boolean =>
  Tool.isUserDefined(value) || Tool.isProviderDefined(value) || Tool.isDynamic(value)

/** Kind of a value that is easily mistaken for another; `undefined` if printing the value is clear enough. */
const nameOf = (value: unknown): string | undefined => {
  if (Context.isKey(value)) return `the service key ${value.key.split("/").at(-1) ?? ""}`
  if (Layer.isLayer(value)) return "a Layer"
  if (isModel(value)) return "a LanguageModel"
  if (isToolkit(value)) return "a Toolkit"
  if (Stream.isStream(value)) return "a Stream"
  if (isTool(value)) return "a tool"
  if (Effect.isEffect(value)) return "an Effect"
  if (has(value, "provider", "model", "keys", "build")) return "a target"
  if (has(value, "info", "generateText", "streamText")) return "a ProviderModel"
  if (isAiSdkModel(value)) return "a model of the AI SDK"
  return undefined
}

/** The error for a value of the wrong kind. */
const wrong = (module: string, field: string, value: unknown, allowed: string): InvalidOption => {
  const name = nameOf(value)
  return new InvalidOption(
    module,
    field,
    value,
    allowed,
    name === undefined ? undefined : `${module}: ${field} must be ${allowed}, got ${name}`
  )
}

// -----------------------------------------------------------------------------
// Checks
// -----------------------------------------------------------------------------

/** Requires a value for which `holds` is true. */
export const where =
  (holds: (value: unknown) => boolean, noun: string): Options.Check =>
  (module, field, value) => {
    if (!holds(value)) throw wrong(module, field, value, noun)
  }

/** As {@link where}, for values that may hold a prompt: a string is not shown in the error. */
const unshown =
  (holds: (value: unknown) => boolean, noun: string): Options.Check =>
  (module, field, value) => {
    if (typeof value !== "string") where(holds, noun)(module, field, value)
    else if (!holds(value)) {
      throw new InvalidOption(
        module,
        field,
        undefined,
        noun,
        `${module}: ${field} must be ${noun}, got a text`
      )
    }
  }

/** Requires a list. `item` checks each element. */
export const list =
  (item: Options.Check, noun: string): Options.Check =>
  (module, field, value) => {
    where(Array.isArray, noun)(module, field, value)
    is.list(item)(module, field, value)
  }

/** Requires an object with these members. `noun` says what it is and how to get one. */
export const having = (noun: string, ...members: ReadonlyArray<string>): Options.Check =>
  where((value) => has(value, ...members) && nameOf(value) === undefined, noun)

/** Allows `false`, for none, or what `other` allows. The text of `other` must mention `false`. */
export const orFalse =
  (other: Options.Check): Options.Check =>
  (module, field, value) => {
    if (value !== false) other(module, field, value)
  }

/** Requires a plain object: not a list, Layer, model or Effect. `then` checks it further. */
export const plain =
  (noun: string, then: Options.Check = is.anything): Options.Check =>
  (module, field, value) => {
    if (Object.prototype.toString.call(value) !== "[object Object]" || nameOf(value) !== undefined) {
      throw wrong(module, field, value, noun)
    }
    then(module, field, value)
  }

/** Requires an object with these fields and no other. `noun` says what it is. */
export const object = <O extends object>(noun: string, checks: Options.Checks<O>): Options.Check =>
  plain(noun, is.object<O>(checks))

/** Runs another module's `validate`, and prefixes the fields in its error with the path of this field. */
export const nested =
  (validate: (value: unknown, module: string) => void): Options.Check =>
  (module, field, value) => {
    try {
      validate(value, module)
    } catch (error) {
      if (!(error instanceof InvalidOption)) throw error
      const said = error.message.slice(error.message.indexOf(": ") + 2)
      // The message quotes an unknown field, but not the path of a known one.
      const message = `${module}: ${field}${said.startsWith('"') ? ": " : "."}${said}`
      throw new InvalidOption(module, `${field}.${error.field}`, error.value, error.allowed, message)
    }
  }

const durationWithin = (range: Options.DurationRange): Options.Check => {
  const within = is.duration(range)
  return (module, field, value) => {
    if (!Options.isDuration(value)) throw wrong(module, field, value, `a duration, for example "5 seconds"`)
    within(module, field, value)
  }
}

/** Requires a duration within the range, by default from zero. An infinite one is allowed. */
export const duration = (range: Options.DurationRange = {}): Options.Check =>
  durationWithin({ max: Duration.infinity, ...range })

/** Requires a finite duration within the range. */
export const finiteDuration = (range: Options.DurationRange = {}): Options.Check => durationWithin(range)

/** Requires a duration above zero. */
export const positiveDuration: Options.Check = duration({ min: "1 millis" })

const isBackoff = (value: unknown): boolean =>
  isObject(value) && (value["_tag"] === "Exponential" || value["_tag"] === "Sequence")

export const backoff: Options.Check = (module, field, value) => {
  where(isBackoff, "a Backoff, for example Backoff.exponential()")(module, field, value)
  // `isBackoff` has checked the tag. The other fields are checked here.
  const spec = value as Backoff.Backoff
  if (spec._tag === "Exponential") {
    duration()(module, `${field}.initial`, spec.initial)
    duration()(module, `${field}.cap`, spec.cap)
  } else {
    list(duration(), "a list of at least one duration")(module, `${field}.delays`, spec.delays)
  }
  nested((_, owner) => Backoff.validate(spec, owner))(module, field, spec)
}

/** Requires an amount of money above 0. */
export const dollars: Options.Check = where(
  (value) => typeof value === "number" && value > 0,
  "above 0 US dollars"
)

/** Requires an integer of at least 1: tokens, calls. */
export const count: Options.Check = is.integer({ min: 1 })

/** Requires an integer of at least 0. */
export const countOrNone: Options.Check = is.integer({ min: 0 })

export const name: Options.Check = where(isText, "a text that is not empty")

/** Requires a public name, of a provider or a model. A key is rejected, and not shown. */
export const publicName: Options.Check = (module, field, value) => {
  name(module, field, value)
  if (typeof value !== "string" || !(isKey(value.trim()) || holdsKey(value))) return
  const allowed = "a name, not a key"
  throw new InvalidOption(module, field, undefined, allowed, `${module}: ${field} must be ${allowed}`)
}

export const names: Options.Check = list(name, "a list of texts")

export const languageModel: Options.Check = where(
  isModel,
  "a LanguageModel, as `yield* LanguageModel.LanguageModel` gives it"
)

export const languageModelOrLayer: Options.Check = where(
  (value) => isModel(value) || Layer.isLayer(value),
  "a LanguageModel, as `yield* LanguageModel.LanguageModel` gives it, or a Layer of one"
)

export const layer = (noun: string): Options.Check => where(Layer.isLayer, noun)

export const toolkit: Options.Check = where(isToolkit, "a Toolkit, for example Toolkit.make(tool)")

/** A toolkit, with or without its handlers. */
export const anyToolkit: Options.Check = where(
  (value) => isToolkit(value) || has(value, "tools", "handle"),
  "a Toolkit, for example Toolkit.make(tool)"
)

export const tools: Options.Check = list(where(isTool, "a tool, as Tool.make gives it"), "a list of tools")

const isIterable = (value: unknown): boolean =>
  isObject(value) && Symbol.iterator in value && nameOf(value) === undefined

const isPrompt = unshown(
  (value) => typeof value === "string" || Prompt.isPrompt(value) || isIterable(value),
  "a text, a Prompt or a list of messages"
)

const role = is.oneOf("system", "user", "assistant", "tool")

const content = unshown(
  (value) => typeof value === "string" || isIterable(value),
  "a text or a list of parts"
)

const messageKind = unshown(isObject, 'a message, for example { role: "user", content }')

/** Checks the role of a message. effect/ai checks its parts. */
const message: Options.Check = (module, field, value) => {
  messageKind(module, field, value)
  if (!isObject(value)) return
  role(module, `${field}.role`, value["role"])
  content(module, `${field}.content`, value["content"])
}

/** Checks the messages of a list, too. Another iterable may allow only one read. */
export const prompt: Options.Check = (module, field, value) => {
  isPrompt(module, field, value)
  if (Array.isArray(value)) is.list(message)(module, field, value)
}

/** Requires a Prompt, for functions that do not accept a string. */
export const madePrompt: Options.Check = unshown(Prompt.isPrompt, "a Prompt, as Prompt.make gives it")

/** Requires an object that holds a prompt or a message. */
export const carrier = (noun: string): Options.Check =>
  unshown((value) => isObject(value) && !Array.isArray(value) && nameOf(value) === undefined, noun)
