/**
 * The models of a chain, from names, models of the AI SDK, and targets of `@outlast/providers`.
 *
 * A name is `provider/model`. Names of `providers` come first, then those of the catalogue. Nothing is imported by a
 * name, so that bundlers and strict package managers find every client.
 *
 * Keys of the catalogue's providers come from the usual variables, `ANTHROPIC_API_KEY`, then `ANTHROPIC_API_KEY_2`,
 * `ANTHROPIC_API_KEY_3` and so on, until one is not set.
 */
import type { ProviderModel } from "@outlast/agent"
import { AiSdk, Anthropic, Catalogue, Google, OpenAi } from "@outlast/providers"
import { InvalidOption, Options } from "@outlast/resilience"
import type { LanguageModel } from "ai"
import { Config, Effect, Option } from "effect"

/** A name (`provider/model`), a model of the AI SDK (specification 3 or 4), or a target of `@outlast/providers`. */
export type Model = LanguageModel | ProviderModel.TargetSpec

/** A provider of the AI SDK, or a registry. */
export interface ModelProvider {
  readonly languageModel: (modelId: never) => Exclude<LanguageModel, string>
}

/** Providers of the AI SDK by the name before the slash, or one registry for all names that it knows. */
export type Providers = ModelProvider | Readonly<Record<string, ModelProvider>>

const { is } = Options
const isProviderOf = (noun: string) => is.having(noun, "languageModel")

/** The check of `providers`. */
export const providersCheck: Options.Check = is.either(
  isProviderOf("a registry"),
  is.record(isProviderOf("a provider of the AI SDK, for example createOpenAI()"))
)

type Spec = ProviderModel.TargetSpec

/** A target whose keys are found when the chain is built. */
type Entry = Effect.Effect<Spec>

/** Provider with a client in this package. */
interface BuiltIn {
  /** Variables of its first key, in the order of preference. */
  readonly keys: readonly [string, ...Array<string>]
  readonly target: (model: string, keys: ReadonlyArray<string>) => Spec
}

const builtIn: Readonly<Record<string, BuiltIn>> = {
  anthropic: {
    keys: Anthropic.defaults.keys,
    target: (model, keys) => Anthropic.model(model, { keys })
  },
  openai: { keys: OpenAi.defaults.keys, target: (model, keys) => OpenAi.model(model, { keys }) },
  google: {
    keys: [...Google.defaults.keys, "GEMINI_API_KEY"],
    target: (model, keys) => Google.model(model, { keys })
  }
}

/**
 * The targets of the models, in their order. Throws an `InvalidOption` (a `RangeError`) for a name that nobody knows,
 * and for a value that is no model.
 */
export const targets = (
  models: ReadonlyArray<Model>,
  providers: Providers | undefined
): Effect.Effect<readonly [Spec, ...Array<Spec>]> => {
  const [first, ...rest] = models.map((model, i) => entryOf(model, `models[${i}]`, providers))
  if (first === undefined) {
    throw new InvalidOption(module, "models", models, 'a list of models, for example ["openai/gpt-5.1"]')
  }
  return Effect.all([first, ...rest])
}

const module = "outlast"

const entryOf = (model: unknown, field: string, providers: Providers | undefined): Entry => {
  if (typeof model === "string") return named(model, field, providers)
  if (isModel(model)) {
    return Effect.succeed(given(model, field, model.provider.split(".")[0] ?? "", model.modelId))
  }
  if (isTarget(model)) return Effect.succeed(model)
  throw new InvalidOption(
    module,
    field,
    model,
    'a name such as "openai/gpt-5.1", a model of the AI SDK (specification 3 or 4), or a target of @outlast/providers'
  )
}

/** The target of a name. */
const named = (name: string, field: string, providers: Providers | undefined): Entry => {
  const slash = name.indexOf("/")
  const [vendor, model] = slash < 0 ? ["", name] : [name.slice(0, slash), name.slice(slash + 1)]
  const own = modelOf(name, vendor, model, providers)
  if (own !== undefined)
    return Effect.succeed(given(own, field, vendor === "" ? own.provider : vendor, model))
  const known = Object.hasOwn(builtIn, vendor) ? builtIn[vendor] : undefined
  if (known !== undefined && Catalogue.find(model)?.provider === vendor) {
    return Effect.map(keysOf(known.keys), (keys) => known.target(model, keys))
  }
  throw unknown(name, field, providers)
}

/** A model of the program's own providers. A registry says itself which names it has. */
const modelOf = (name: string, vendor: string, model: string, providers: Providers | undefined) => {
  if (providers === undefined) return undefined
  // The type of the names is that of each provider.
  if (isProvider(providers))
    return Object.hasOwn(builtIn, vendor) ? undefined : providers.languageModel(name as never)
  return Object.hasOwn(providers, vendor) ? providers[vendor]?.languageModel(model as never) : undefined
}

const isProvider = (providers: Providers): providers is ModelProvider =>
  typeof providers.languageModel === "function"

const unknown = (name: string, field: string, providers: Providers | undefined): InvalidOption => {
  const own = providers === undefined || isProvider(providers) ? [] : Object.keys(providers)
  const known = Catalogue.entries
    .filter(({ provider }) => Object.hasOwn(builtIn, provider))
    .map(({ provider, model }) => `${provider}/${model}`)
  const near = nearest(name, known)
  const message = [
    `${module}: ${field}: no model is known by the name "${name}".`,
    ...(near === undefined ? [] : [`Did you mean "${near}"?`]),
    own.length === 0
      ? 'For a newer model or another provider, pass a model of the AI SDK, for example openai("gpt-next"), or `providers`.'
      : `Providers that were passed: ${own.join(", ")}.`
  ].join(" ")
  return new InvalidOption(module, field, name, "the name of a known model", message)
}

/** The key variables that are set: the first one, and those with a number. Without any, the first one is named. */
const keysOf = ([first, ...others]: BuiltIn["keys"]): Effect.Effect<ReadonlyArray<string>> =>
  Effect.gen(function* () {
    let name = first
    for (const other of [first, ...others]) {
      if (!(yield* isSet(other))) continue
      name = other
      break
    }
    const keys = [name]
    for (let n = 2; yield* isSet(`${name}_${n}`); n++) keys.push(`${name}_${n}`)
    return keys
  })

const isSet = (name: string): Effect.Effect<boolean> =>
  Config.option(Config.Redacted(name)).pipe(
    Effect.map(Option.isSome),
    // A value that cannot be read is reported by the chain.
    Effect.orElseSucceed(() => true)
  )

type SdkModel = ReturnType<Parameters<typeof AiSdk.model>[0]["create"]>

const given = (model: object, field: string, provider: string, name: string): Spec => {
  const version: unknown = "specificationVersion" in model ? model.specificationVersion : undefined
  const isUsable = version === "v3" || version === "v4"
  Options.check(isUsable, module, `${field}.specificationVersion`, version, '"v3" or "v4"')
  return AiSdk.model({
    provider: provider === "" ? "ai-sdk" : provider,
    model: name,
    // `AiSdk.model` checks its functions when it is first used.
    create: () => model as SdkModel
  })
}

interface AnyModel {
  readonly provider: string
  readonly modelId: string
}

const isModel = (value: unknown): value is AnyModel =>
  typeof value === "object" &&
  value !== null &&
  "doGenerate" in value &&
  "provider" in value &&
  typeof value.provider === "string" &&
  "modelId" in value &&
  typeof value.modelId === "string"

/** `Failover` checks the fields of a target. */
const isTarget = (value: unknown): value is Spec =>
  typeof value === "object" && value !== null && "build" in value && "keys" in value

/** The most similar name, if it is similar at all. */
const nearest = (name: string, names: ReadonlyArray<string>): string | undefined => {
  const ranked = names
    .map((known) => {
      // A name without its provider is compared with the models alone.
      const compared = name.includes("/") ? known : known.slice(known.indexOf("/") + 1)
      return { known, distance: Options.typingErrors(name.toLowerCase(), compared) }
    })
    .toSorted((a, b) => a.distance - b.distance)
  const [best] = ranked
  return best !== undefined && best.distance <= name.length / 2 ? best.known : undefined
}
