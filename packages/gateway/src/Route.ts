/**
 * Routes: from the model that a caller asks for, in a wire format, to the calls of a chain.
 *
 * With routes of its own, a gateway serves these and nothing else. Without, it serves every model of the vendors whose keys
 * are in the environment: a model that the catalogue knows at its vendor, any other one at OpenAI for Chat Completions and
 * Responses, and at Anthropic for Messages. Further keys of a vendor have the same name with `_2` to `_9`.
 *
 * A chain is built with its first call, and kept: cooldowns and circuits hold from call to call. Names of one route share
 * its chain. Chains of different wire formats are different chains: a target that speaks the format gets the caller's own
 * request, and any other one a translation.
 */
import { RecoveryPolicy } from "@outlast/agent"
import type { Chain, ProviderModel } from "@outlast/agent"
import { Calls } from "@outlast/agent/internal"
import { Anthropic, Catalogue, Google, OpenAi } from "@outlast/providers"
import { Wiring } from "@outlast/providers/internal"
import { Options } from "@outlast/resilience"
import { Config, Data, Effect, Exit, Scope } from "effect"
import type { Fields } from "./json/Json.ts"
import * as TranslatedModel from "./target/TranslatedModel.ts"
import { otherRoute } from "./telemetry/GatewayEvent.ts"
import * as WireModel from "./target/WireModel.ts"
import { Untranslatable } from "./wire/Translation.ts"
import type { Translator, Wire } from "./wire/Wire.ts"

export interface Route {
  /** The targets in order. Each keeps its own model, key and endpoint. */
  readonly chain: readonly [ProviderModel.TargetSpec, ...Array<ProviderModel.TargetSpec>]
  /**
   * Default: `RecoveryPolicy.interactive`. Its `truncation` has no effect: an answer that the caller's own limit cut is
   * complete for the caller.
   */
  readonly policy?: RecoveryPolicy.RecoveryPolicy<string> | undefined
  /**
   * `whole` holds the arguments of tool calls until the answer is complete, so that another target can still answer.
   * `flow` shows them as they come, and a cut in them is an error. Default: `whole`.
   */
  readonly toolArguments?: "whole" | "flow" | undefined
}

export type Named = Readonly<Record<string, Route>>

/** The gateway has no chain for a request. */
class NoRoute extends Data.TaggedError("NoRoute")<{
  readonly status: number
  readonly code: string
  readonly message: string
  /** The configured route; `other` without one. */
  readonly name: string
}> {}

/** The chain for a request. */
interface Served {
  /** The configured route; `other` without one. */
  readonly name: string
  readonly route: Route
  readonly calls: Calls.Calls
}

/** A chain that is in use. */
export interface Built {
  /** The configured route; `undefined` for a model that a caller has asked for without one. */
  readonly route: string | undefined
  readonly wire: Wire["name"]
  readonly targets: Calls.Calls["targets"]
}

export interface Routes {
  /** `body` is the request: some fields only targets that speak the wire can answer. */
  readonly find: (model: string, wire: Wire, body: Fields) => Effect.Effect<Served, NoRoute>
  /** Models that callers may ask for. Without routes: those that the catalogue knows. */
  readonly names: Effect.Effect<ReadonlyArray<string>>
  /** The chains that calls have built, and that are kept. */
  readonly chains: Effect.Effect<ReadonlyArray<Built>>
  /** Takes other routes. A route that stays the same object keeps its chains. Running calls go on. */
  readonly replace: (routes: Named) => Effect.Effect<void>
}

export interface Sources {
  readonly routes: Named | undefined
  readonly fetch: typeof globalThis.fetch
}

/** Chains to keep. The one that was used longest ago is dropped first. */
const maxChains = 256

interface Kept {
  readonly route: Route
  readonly calls: Effect.Effect<Calls.Calls, Chain.ChainError>
  readonly scope: Scope.Closeable
  /** `undefined` while it is built. */
  built: Built | undefined
}

export const make = (sources: Sources): Effect.Effect<Routes, never, Scope.Scope> =>
  Effect.gen(function* () {
    const { fetch } = sources
    const parent = yield* Effect.scope
    let routes = sources.routes
    const kept = new Map<string, Kept>()
    const drop = (name: string): Effect.Effect<void> => {
      const scope = kept.get(name)?.scope
      kept.delete(name)
      return scope === undefined ? Effect.void : Scope.close(scope, Exit.void)
    }
    const chainOf = (wire: Wire, found: Found) =>
      Effect.suspend(() => {
        const { route } = found
        const name = `${wire.name}/${found.name}`
        const known = kept.get(name)
        if (known !== undefined && (known.route === route || routes === undefined)) {
          // The map is in the order of use.
          kept.delete(name)
          kept.set(name, known)
          return known.calls
        }
        const scope = Scope.forkUnsafe(parent)
        const configured = routes === undefined ? undefined : found.name
        const build = Calls.make(targetsOf(route, wire, fetch), policyOf(route)).pipe(
          Scope.provide(scope),
          Effect.tap(({ targets }) =>
            Effect.sync(() => {
              const own = kept.get(name)
              if (own?.scope === scope) own.built = { route: configured, wire: wire.name, targets }
            })
          ),
          // Another chain may have the name by now.
          Effect.tapError(() => (kept.get(name)?.scope === scope ? drop(name) : Effect.void))
        )
        return Effect.flatMap(Effect.cached(build), (calls) => {
          const before = drop(name)
          kept.set(name, { route, calls, scope, built: undefined })
          const [oldest = ""] = kept.keys()
          const made = kept.size > maxChains ? Effect.andThen(drop(oldest), calls) : calls
          return Effect.andThen(before, made)
        })
      })
    return {
      names: Effect.suspend(() => (routes === undefined ? knownModels : Effect.succeed(Object.keys(routes)))),
      chains: Effect.sync(() =>
        Array.from(kept.values()).flatMap(({ built }) => (built === undefined ? [] : [built]))
      ),
      replace: (next) =>
        Effect.suspend(() => {
          routes = next
          const current = new Set(Object.values(next))
          const gone = Array.from(kept).filter(([, { route }]) => !current.has(route))
          return Effect.forEach(gone, ([name]) => drop(name), { discard: true })
        }),
      find: (model, wire, body) =>
        Effect.gen(function* () {
          const found = routes === undefined ? yield* fromKeys(model, wire) : yield* named(routes, model)
          const { route } = found
          const speakers = route.chain.filter((spec) => wiringOf(spec, wire) !== undefined)
          const isMixed = speakers.length < route.chain.length
          // Only targets that speak the wire can answer a request with this field.
          const only = isMixed ? wire.translator?.refuses(body) : undefined
          // The name of a model that no route has is the caller's own text.
          const name = routes === undefined ? otherRoute : found.name
          if (speakers.length === 0 && (only !== undefined || wire.translator === undefined))
            return yield* unspoken(model, wire, name, only)
          const unusable = ({ message }: { readonly message: string }) =>
            new NoRoute({ status: 502, code: "no_target", message, name })
          const all = yield* Effect.mapError(chainOf(wire, found), unusable)
          const calls = only === undefined ? all : all.only((_, model) => WireModel.isOne(model))
          if (calls !== undefined) return { calls, name, route }
          return yield* unusable({
            message: `No target of the route "${shortened(model)}" that speaks ${wire.title} can be used. The log has the cause.`
          })
        })
    }
  })

const policyOf = ({ policy = RecoveryPolicy.interactive }: Route) => ({
  policy: { ...policy, truncation: false as const }
})

/** The wiring of a target that speaks the wire. */
const wiringOf = (spec: ProviderModel.TargetSpec, { speaks }: Wire): Wiring.Wiring | undefined => {
  const wiring = Wiring.of(spec)
  return wiring?.wires.includes(speaks) === true ? wiring : undefined
}

/** The targets that can answer in a wire. */
const targetsOf = (
  { chain }: Route,
  wire: Wire,
  fetch: typeof globalThis.fetch
): ReadonlyArray<ProviderModel.TargetSpec> => {
  const targets = chain.flatMap((spec) => {
    const wiring = wiringOf(spec, wire)
    if (wiring !== undefined) return [spokenBy(spec, wiring, fetch)]
    return wire.translator === undefined ? [] : [translatedBy(spec, wire.translator, fetch)]
  })
  return wire.isBound ? targets.filter(({ model }) => model === targets[0]?.model) : targets
}

/** The target as one that sends the caller's own request. */
const spokenBy = (
  spec: ProviderModel.TargetSpec,
  wiring: Wiring.Wiring,
  fetch: typeof globalThis.fetch
): ProviderModel.TargetSpec => {
  const { model, provider } = spec
  const build = Effect.map(spec.build, ({ info }) => WireModel.make({ provider, model, info, wiring, fetch }))
  return { ...spec, build }
}

/** The target as one that gets a translation of the caller's request. */
const translatedBy = (
  spec: ProviderModel.TargetSpec,
  translator: Translator,
  fetch: typeof globalThis.fetch
): ProviderModel.TargetSpec => {
  const { endpoint, model, provider } = spec
  const build = Effect.map(spec.build, (inner) =>
    TranslatedModel.make({ provider, model, endpoint, translator, inner, fetch })
  )
  return { ...spec, build }
}

const unspoken = (model: string, { title }: Wire, name: string, refused: string | undefined): NoRoute => {
  const none = `No target of the route "${model}" speaks ${title}.`
  return refused === undefined
    ? new NoRoute({
        name,
        status: 400,
        code: "wire_not_supported",
        message: `${none} Add a target that does, or ask in another format.`
      })
    : new NoRoute({
        name,
        status: 400,
        code: "not_translatable",
        message: `${new Untranslatable(refused).message} ${none}`
      })
}

// -----------------------------------------------------------------------------
// Routes by name
// -----------------------------------------------------------------------------

interface Found {
  /** One name for all aliases of a route. */
  readonly name: string
  readonly route: Route
}

const named = (routes: Named, model: string): Effect.Effect<Found, NoRoute> => {
  const route = Object.hasOwn(routes, model) ? routes[model] : undefined
  if (route !== undefined) {
    const [name] = Object.entries(routes).find(([, each]) => each === route) ?? [model]
    return Effect.succeed({ name, route })
  }
  const near = nearest(model, Object.keys(routes))
  const hint = near === undefined ? "" : ` Did you mean "${near}"?`
  const message = `There is no route "${shortened(model)}".${hint}`
  return Effect.fail(new NoRoute({ status: 404, code: "model_not_found", message, name: otherRoute }))
}

/** Names of models are short; a longer one is not repeated whole. */
const shortened = (name: string): string => (name.length > 100 ? `${name.slice(0, 100)}…` : name)

/** The name with the fewest changes. */
const nearest = (name: string, names: ReadonlyArray<string>): string | undefined => {
  const asked = name.slice(0, 100).toLowerCase()
  const ranked = names.map((each) => ({
    each,
    changes: Options.typingErrors(asked, each.slice(0, 100).toLowerCase())
  }))
  return ranked.toSorted((a, b) => a.changes - b.changes)[0]?.each
}

// -----------------------------------------------------------------------------
// Keys in the environment
// -----------------------------------------------------------------------------

/** Vendors that are known by the name of a model alone. */
const vendors = { anthropic: Anthropic, google: Google, openai: OpenAi } as const

const vendorOf = (model: string, wire: Wire): keyof typeof vendors => {
  const known = Catalogue.find(model)?.provider
  if (known === "anthropic" || known === "google" || known === "openai") return known
  return wire.speaks === "messages" ? "anthropic" : "openai"
}

/** Variables of a vendor's keys. */
const variables = (name: string): ReadonlyArray<string> => [
  name,
  ...Array.from({ length: 8 }, (_, i) => `${name}_${i + 2}`)
]

const isSet = (variable: string): Effect.Effect<boolean> =>
  Effect.map(
    Effect.option(Config.String(variable)),
    (value) => value._tag === "Some" && value.value.trim() !== ""
  )

/** The variables of all vendors that are set, in the order of their use. */
export const keysInEnvironment: Effect.Effect<ReadonlyArray<string>> = Effect.filter(
  [...OpenAi.defaults.keys, ...Anthropic.defaults.keys, ...Google.defaults.keys].flatMap(variables),
  isSet
)

/** The variables of a key that are set. Without one, the first: an error then names it. */
const keysFor = (name: string): Effect.Effect<ReadonlyArray<string>> =>
  Effect.map(Effect.filter(variables(name), isSet), (found) => (found.length === 0 ? [name] : found))

/** Models of the catalogue whose vendor has a key. */
const knownModels: Effect.Effect<ReadonlyArray<string>> = Effect.map(keysInEnvironment, (keys) =>
  Catalogue.entries
    .filter(({ provider }) => keys.some((key) => key.toLowerCase().startsWith(`${provider}_`)))
    .map(({ model }) => model)
)

const fromKeys = (model: string, wire: Wire): Effect.Effect<Found, NoRoute> => {
  const vendor = vendors[vendorOf(model, wire)]
  const [variable = ""] = vendor.defaults.keys
  return Effect.flatMap(keysFor(variable), (keys) =>
    Effect.try({
      try: (): Found => ({ name: model, route: { chain: [vendor.model(model, { keys })] } }),
      // The name is the caller's own.
      catch: () =>
        new NoRoute({
          status: 404,
          code: "model_not_found",
          message: "This is not the name of a model.",
          name: otherRoute
        })
    })
  )
}
