/**
 * Checks JSON against a JSON Schema, as far as every reader of the schema agrees: types, required and named properties,
 * items, values of `enum` and `const`, `anyOf`, `oneOf`, `allOf` and local references.
 *
 * It never rejects what a validator would accept: other keywords are ignored, and so are further properties, which many
 * programs drop. Pure.
 *
 * **Example** (A missing property)
 *
 * ```ts
 * misfit({ type: "object", required: ["city"] }, {}) // => { path: ["city"], expected: "a value" }
 * ```
 */
import { Predicate } from "effect"

/** Where a value does not fit, and what should stand there. */
export interface Misfit {
  readonly path: ReadonlyArray<string | number>
  readonly expected: string
}

/** The first place where `value` does not fit; `undefined` when it fits. */
export const misfit = (schema: unknown, value: unknown): Misfit | undefined =>
  check(schema, value, [], 0, { root: schema, checks: 0 })

type Path = Misfit["path"]

/** Levels of schemas and values. References may lead in a circle, and an answer may nest without end. */
const maxDepth = 200

/** Schemas that are looked at for one value: alternatives may double with each level. */
const maxChecks = 100_000

interface Run {
  readonly root: unknown
  checks: number
}

const check = (schema: unknown, value: unknown, path: Path, depth: number, run: Run): Misfit | undefined => {
  // What is too large to be checked may fit.
  if (!Predicate.isObject(schema) || depth > maxDepth || run.checks++ > maxChecks) return undefined
  const same = (part: unknown) => check(part, value, path, depth + 1, run)
  const inner = (of: unknown, item: unknown, key: string | number) =>
    check(of, item, [...path, key], depth + 1, run)
  const all = <A>(items: ReadonlyArray<A>, test: (item: A, i: number) => Misfit | undefined) => {
    for (const [i, item] of items.entries()) {
      const found = test(item, i)
      if (found !== undefined) return found
    }
    return undefined
  }
  const allOf = [
    ...(typeof schema["$ref"] === "string" ? [resolved(run.root, schema["$ref"])] : []),
    ...listOf(schema["allOf"])
  ]
  const found =
    all(allOf, same) ??
    wrongType(schema, value, path) ??
    wrongValue(schema, value, path) ??
    all([schema["anyOf"], schema["oneOf"]], (group) => {
      const parts = listOf(group)
      const misfits = parts.map(same)
      if (parts.length === 0 || misfits.includes(undefined)) return undefined
      // The alternative that fits furthest is the one that was meant.
      return misfits.reduce((a, b) => ((b?.path.length ?? 0) > (a?.path.length ?? 0) ? b : a))
    })
  if (found !== undefined) return found
  if (Array.isArray(value)) return all(value, (item, i) => inner(schema["items"], item, i))
  if (!Predicate.isObject(value)) return undefined
  const missing = listOf(schema["required"]).find(
    (name) => typeof name === "string" && !Object.hasOwn(value, name)
  )
  if (typeof missing === "string") {
    return { path: [...path, missing], expected: expectedBy(propertyOf(schema, missing)) }
  }
  return all(Object.entries(value), ([name, item]) => inner(propertyOf(schema, name), item, name))
}

const listOf = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [])

/** The schema of a property; that of all further ones, where nothing else may name it. */
const propertyOf = (schema: Readonly<Record<PropertyKey, unknown>>, name: string): unknown => {
  const { properties, patternProperties, additionalProperties } = schema
  if (Predicate.isObject(properties) && Object.hasOwn(properties, name)) return Reflect.get(properties, name)
  return patternProperties === undefined ? additionalProperties : undefined
}

const wrongType = (
  schema: Readonly<Record<PropertyKey, unknown>>,
  value: unknown,
  path: Path
): Misfit | undefined => {
  const types = typesOf(schema)
  return types.length === 0 || types.some((type) => isOf(type, value))
    ? undefined
    : { path, expected: types.map(named).join(" or ") }
}

const typesOf = ({ type, nullable }: Readonly<Record<PropertyKey, unknown>>): ReadonlyArray<string> => {
  const types = (Array.isArray(type) ? type : [type]).filter((one) => typeof one === "string")
  return nullable === true && types.length > 0 ? [...types, "null"] : types
}

const isOf = (type: string, value: unknown): boolean => {
  switch (type) {
    case "object":
      return Predicate.isObject(value)
    case "array":
      return Array.isArray(value)
    case "integer":
      return Number.isInteger(value)
    case "null":
      return value === null
    case "string":
    case "number":
    case "boolean":
      return typeof value === type
    default:
      return true
  }
}

const wrongValue = (
  schema: Readonly<Record<PropertyKey, unknown>>,
  value: unknown,
  path: Path
): Misfit | undefined => {
  const allowed = "const" in schema ? [schema["const"]] : listOf(schema["enum"])
  // Objects among the values would have to be compared by their content.
  if (allowed.length === 0 || allowed.some((one) => typeof one === "object" && one !== null)) return undefined
  if (allowed.includes(value)) return undefined
  return { path, expected: allowed.map((one) => JSON.stringify(one)).join(" or ") }
}

const expectedBy = (schema: unknown): string => {
  const types = Predicate.isObject(schema) ? typesOf(schema) : []
  return types.length === 0 ? "a value" : types.map(named).join(" or ")
}

const named = (type: string): string =>
  type === "null" ? "null" : `${/^[aeiou]/.test(type) ? "an" : "a"} ${type}`

/** What a local reference points to. Others are not followed, and fit everything. */
const resolved = (root: unknown, ref: string): unknown => {
  if (ref !== "#" && !ref.startsWith("#/")) return undefined
  let node = root
  for (const step of ref.split("/").slice(1)) {
    const key = decodeStep(step)
    if (!Predicate.isObjectOrArray(node) || !Object.hasOwn(node, key)) return undefined
    node = Reflect.get(node, key)
  }
  return node
}

const decodeStep = (step: string): string => {
  const plain = step.replaceAll("~1", "/").replaceAll("~0", "~")
  try {
    return decodeURIComponent(plain)
  } catch {
    return plain
  }
}

/** As effect's schemas say it. */
export const inWords = ({ path, expected }: Misfit): string =>
  path.length === 0
    ? `Expected ${expected}`
    : `Expected ${expected}\n  at ${path.map((key) => `[${JSON.stringify(key)}]`).join("")}`
