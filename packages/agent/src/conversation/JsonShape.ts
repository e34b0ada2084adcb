/**
 * Checks JSON against the parts of JSON Schema that all implementations agree on: types, required and named
 * properties, items, `enum` and `const` values, `anyOf`, `oneOf`, `allOf` and local references.
 *
 * A value that a validator accepts is never rejected. Other keywords are ignored, and so are additional properties,
 * which many programs drop. Pure.
 *
 * **Example** (A missing property)
 *
 * ```ts
 * misfit({ type: "object", required: ["city"] }, {}) // => { path: ["city"], expected: "a value" }
 * ```
 */
import { Predicate } from "effect"

/** The place where a value does not fit, and the expected value. */
export interface Misfit {
  readonly path: ReadonlyArray<string | number>
  readonly expected: string
}

/** The first place where `value` does not fit; `undefined` when it fits. */
export const misfit = (schema: unknown, value: unknown): Misfit | undefined =>
  check(schema, value, [], 0, { root: schema, checks: 0 })

type Path = Misfit["path"]

/** Maximum depth of schemas and values. References may be circular, and an answer may nest without end. */
const maxDepth = 200

/** Maximum number of schemas that are checked for one value. Alternatives may double with each level. */
const maxChecks = 100_000

interface Run {
  readonly root: unknown
  checks: number
}

const check = (schema: unknown, value: unknown, path: Path, depth: number, run: Run): Misfit | undefined => {
  // A value that is too large to check is accepted.
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
      // Report the alternative that fits furthest: it is probably the intended one.
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

/** The schema of a property: its own, or `additionalProperties` when no pattern could match. */
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
  // Object values would need a deep comparison, so they are not checked.
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

/** Resolves a local reference. Other references are not followed, and accept everything. */
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

/** Formats a misfit like the errors of effect's schemas. */
export const inWords = ({ path, expected }: Misfit): string =>
  path.length === 0
    ? `Expected ${expected}`
    : `Expected ${expected}\n  at ${path.map((key) => `[${JSON.stringify(key)}]`).join("")}`
