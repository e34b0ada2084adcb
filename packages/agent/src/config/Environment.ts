/**
 * The environment variables of a configuration: their names, the problems with their values, and those that are no
 * setting.
 *
 * A variable has the path of its field in upper case: `policy.maxAttempts` is `OUTLAST_POLICY_MAX_ATTEMPTS`.
 */
import type { Config, ConfigProvider } from "effect"
import { Effect, Predicate, Schema, String as Text } from "effect"
import { Options } from "@outlast/resilience"
import type { Problem } from "./Fields.ts"
import { ConfigInvalid, problemsOf, withFields } from "./Fields.ts"

/** The JSON Schema of a configuration. */
type Document = ReturnType<typeof Schema.toJsonSchemaDocument>

const prefix = "OUTLAST"

/** The name of the variable at a path such as `policy.maxAttempts`. */
const variableOf = (path: string): string =>
  [prefix, ...path.split(".").filter((part) => part !== "")].map(Text.configCase).join("_")

const renamed = ({ path, problem }: Problem): Problem => ({ path: variableOf(path), problem })

/** The same problems, with the names of variables instead of paths. */
export const named = ({ problems }: ConfigInvalid): ConfigInvalid =>
  new ConfigInvalid({ problems: problems.map(renamed) })

/** The problems with values of variables. An error of the provider itself stays one. */
export const invalid =
  (document: Document) =>
  (error: Config.ConfigError): Config.ConfigError | ConfigInvalid => {
    if (!Schema.isSchemaError(error.cause)) return error
    // The paths begin with the name of the configuration.
    const inside = problemsOf(error.cause.issue, document).map(({ path, problem }) => ({
      path: path.replace(/^outlast\.?/, ""),
      problem
    }))
    return named(new ConfigInvalid({ problems: inside }))
  }

// -----------------------------------------------------------------------------
// Variables that are no setting
// -----------------------------------------------------------------------------

/** Variables that are read from a provider, at most. */
const maxVariables = 1_000

/**
 * One sentence for each variable that is probably meant as a setting and is none. Other variables that begin with
 * `OUTLAST_` are left alone: commands and programs have their own.
 */
export const mistaken = (
  document: Document,
  provider: ConfigProvider.ConfigProvider
): Effect.Effect<ReadonlyArray<string>> => {
  const { settings, open } = variablesOf(document.schema, "")
  const groups = new Set(settings.map((name) => name.split("_")[1]))
  const problemOf = (name: string): ReadonlyArray<string> => {
    if (settings.includes(name) || open.some((start) => name.startsWith(start))) return []
    const near = Options.nearest(name, settings)
    if (near === undefined && !groups.has(name.split("_")[1])) return []
    return [
      `The variable ${name} is not a setting, and has no effect.${near === undefined ? "" : ` Did you mean ${near}?`}`
    ]
  }
  return Effect.map(given(provider), (names) => names.flatMap(problemOf))
}

/** The variables of all fields, and how the variables of records begin. */
const variablesOf = (
  forms: unknown,
  path: string
): { readonly settings: ReadonlyArray<string>; readonly open: ReadonlyArray<string> } => {
  const schema = withFields(forms)
  if (Predicate.hasProperty(schema, "properties") && Predicate.isObject(schema.properties)) {
    const inside = Object.entries(schema.properties).map(([name, field]) =>
      variablesOf(field, path === "" ? name : `${path}.${name}`)
    )
    return {
      settings: [
        // A field that has fields may have another form, too.
        ...(schema === forms ? [] : [variableOf(path)]),
        ...inside.flatMap(({ settings }) => settings)
      ],
      open: inside.flatMap(({ open }) => open)
    }
  }
  return Predicate.hasProperty(schema, "additionalProperties")
    ? { settings: [], open: [`${variableOf(path)}_`] }
    : { settings: [variableOf(path)], open: [] }
}

/** The names of the variables that a provider has. A provider that fails has none. */
const given = (provider: ConfigProvider.ConfigProvider): Effect.Effect<ReadonlyArray<string>> =>
  Effect.gen(function* () {
    const names: Array<string> = []
    const paths: Array<ReadonlyArray<string>> = [[prefix]]
    for (let path = paths.pop(); path !== undefined && names.length < maxVariables; path = paths.pop()) {
      const node = yield* provider.load(path)
      if (node === undefined) continue
      if (node._tag !== "Record" || node.value !== undefined) names.push(path.join("_"))
      if (node._tag === "Record") for (const key of node.keys) paths.push([...path, key])
    }
    return names.toSorted()
  }).pipe(Effect.orElseSucceed(() => []))
