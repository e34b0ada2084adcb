/**
 * Routes as data, from a file: names that callers ask for, their targets in order, and a policy.
 *
 * {@link decode} reads parsed JSON, YAML or TOML, and reports every problem with the path of its field. Keys are never in
 * a file: it names their variables.
 *
 * **Example** (Two vendors of one wire format, in TOML)
 *
 * ```toml
 * [policy]
 * preset = "interactive"
 *
 * [routes.smart]
 * aliases = ["gpt-4o"]
 *
 * [[routes.smart.targets]]
 * provider = "openai"
 * model = "gpt-5.1"
 * keys = ["OPENAI_API_KEY", "OPENAI_API_KEY_2"]
 *
 * [[routes.smart.targets]]
 * provider = "compatible"
 * name = "openrouter"
 * baseUrl = "https://openrouter.ai/api/v1"
 * model = "openai/gpt-5.1"
 * keys = ["OPENROUTER_API_KEY"]
 * ```
 */
import type { ProviderModel } from "@outlast/agent"
import { OutlastConfig } from "@outlast/agent/config"
import { Fields } from "@outlast/agent/internal"
import { Anthropic, Google, OpenAi, OpenAiCompatible } from "@outlast/providers"
import { InvalidOption } from "@outlast/resilience"
import { Result, Schema } from "effect"
import { fields } from "../json/Json.ts"
import type { Named, Route } from "../Route.ts"

const { optionalKey, String, Struct } = Schema

const Target = Struct({
  provider: Schema.Literals(["openai", "anthropic", "google", "compatible"]).annotate({
    description: "Who speaks: OpenAI, Anthropic, Google, or any server with OpenAI's Chat Completions."
  }),
  model: String.annotate({ description: "The name of the model at the vendor." }),
  keys: optionalKey(
    Schema.Array(String).annotate({ description: "Variables with the keys, in the order of their use." })
  ),
  baseUrl: optionalKey(String.annotate({ description: "With the version, for example https://host/v1." })),
  name: optionalKey(String.annotate({ description: "The name of a compatible vendor in logs and headers." })),
  streamUsage: optionalKey(
    Schema.Boolean.annotate({
      description:
        "False for a compatible server that takes no stream_options. The cost of its streams is then unknown."
    })
  )
})

const Policy = OutlastConfig.OutlastConfig.fields.policy

/** A file with routes. */
export const RoutesConfig = Struct({
  policy: Policy,
  routes: Schema.Record(
    String,
    Struct({
      aliases: optionalKey(
        Schema.Array(String).annotate({ description: "Further names that callers may ask for." })
      ),
      targets: Schema.NonEmptyArray(Target),
      toolArguments: optionalKey(
        Schema.Literals(["whole", "flow"]).annotate({
          description:
            "Hold the arguments of tool calls until the answer is complete, or show them as they come."
        })
      ),
      policy: Policy
    })
  )
}).annotate({ title: "Outlast gateway", description: "Routes of outlast gateway." })

/** The JSON Schema of such a file, for editors. */
export const jsonSchema = () => OutlastConfig.schemaOf(RoutesConfig)

type Target = typeof Target.Type

const read = Fields.decoder(RoutesConfig)

/** The routes by all of their names. */
export const decode = (input: unknown): Result.Result<Named, OutlastConfig.ConfigInvalid> =>
  Result.flatMap(read(OutlastConfig.withoutSchema(input)), (config) => {
    const routes: Record<string, Route> = {}
    const problems: Array<OutlastConfig.Problem> = []
    for (const [name, { aliases = [], policy = config.policy, targets, toolArguments }] of Object.entries(
      config.routes
    )) {
      const chain = targets.flatMap((target, i) => {
        try {
          return [targetOf(target)]
        } catch (error) {
          if (!(error instanceof InvalidOption)) throw error
          problems.push({ path: `routes.${name}.targets[${i}]`, problem: error.message })
          return []
        }
      })
      const [first, ...rest] = chain
      if (first === undefined) continue
      const settings = OutlastConfig.checked(policy === undefined ? {} : { policy })
      if (Result.isFailure(settings)) {
        problems.push(
          ...settings.failure.problems.map(({ path, problem }) => ({
            path: `routes.${name}.${path}`,
            problem
          }))
        )
        continue
      }
      const route: Route = {
        chain: [first, ...rest],
        policy: OutlastConfig.policyOf(settings.success),
        toolArguments
      }
      for (const each of [name, ...aliases]) {
        if (Object.hasOwn(routes, each)) {
          problems.push({ path: `routes.${name}`, problem: `the name "${each}" is taken by another route` })
        } else routes[each] = route
      }
    }
    if (Object.keys(config.routes).length === 0) {
      problems.push({ path: "routes", problem: "at least one route is needed" })
    }
    return problems.length === 0
      ? Result.succeed(routes)
      : Result.fail(new OutlastConfig.ConfigInvalid({ problems }))
  })

const targetOf = ({
  baseUrl,
  keys,
  model,
  name,
  provider,
  streamUsage
}: Target): ProviderModel.TargetSpec => {
  const options = {
    ...(keys === undefined ? undefined : { keys }),
    ...(baseUrl === undefined ? undefined : { baseUrl })
  }
  switch (provider) {
    case "anthropic":
      return Anthropic.model(model, options)
    case "google":
      return Google.model(model, options)
    case "openai":
      return OpenAi.model(model, options)
    case "compatible":
      return OpenAiCompatible.model({
        ...options,
        model,
        streamUsage,
        baseUrl: baseUrl ?? "",
        name: name ?? (URL.canParse(baseUrl ?? "") ? new URL(baseUrl ?? "").hostname : "compatible")
      })
  }
}

/** What a file gave. */
export interface Loaded {
  readonly input: unknown
  readonly routes: Named
}

/**
 * Reads a file that has changed. A route that is written as `before` stays the same object, and so keeps its cooldowns in
 * `Gateway.replace`.
 */
export const reload = (input: unknown, before: Loaded): Result.Result<Named, OutlastConfig.ConfigInvalid> =>
  Result.map(decode(input), (routes) => {
    const written = (input: unknown, name: string) => textAt(input, "policy") + textAt(input, "routes", name)
    const same = new Map(
      Object.keys(before.routes).flatMap((name) => {
        const [known, route] = [before.routes[name], routes[name]]
        const isSame =
          textAt(input, "routes", name) !== "" && written(input, name) === written(before.input, name)
        return known !== undefined && route !== undefined && isSame ? [[route, known]] : []
      })
    )
    return Object.fromEntries(Object.entries(routes).map(([name, route]) => [name, same.get(route) ?? route]))
  })

/** The JSON at a path; empty where nothing is. */
const textAt = (input: unknown, ...path: ReadonlyArray<string>): string => {
  let at = input
  for (const name of path) at = fields(at)[name]
  return JSON.stringify(at) ?? ""
}
