/** A strict parser of the text format 0.0.4: throws for whatever the format does not allow. */

export interface Sample {
  readonly name: string
  readonly labels: ReadonlyMap<string, string>
  readonly value: number
}

const fail = (line: string, why: string): never => {
  throw new Error(`${why}: ${JSON.stringify(line)}`)
}

const labelsIn = (line: string, text: string): ReadonlyMap<string, string> => {
  const labels = new Map<string, string>()
  const one = /^([a-zA-Z_]\w*)="((?:[^"\\\n]|\\\\|\\n|\\")*)"(,|$)/
  let rest = text
  while (rest !== "") {
    const found = one.exec(rest)
    if (found === null) return fail(line, "a wrong label")
    const [all, name = "", value = "", comma] = found
    if (name.startsWith("__")) fail(line, "a reserved label")
    if (labels.has(name)) fail(line, "a label twice")
    labels.set(
      name,
      value.replaceAll(/\\(.)/gs, (_, of: string) => (of === "n" ? "\n" : of))
    )
    rest = rest.slice(all.length)
    if (comma === "," && rest === "") fail(line, "a comma at the end")
  }
  return labels
}

const suffixes: Readonly<Record<string, ReadonlyArray<string>>> = {
  counter: [""],
  gauge: [""],
  histogram: ["_bucket", "_sum", "_count"],
  summary: ["", "_sum", "_count"]
}

const number = (line: string, text: string): number => {
  if (text === "+Inf") return Infinity
  if (text === "-Inf") return -Infinity
  if (text === "NaN") return Number.NaN
  if (!/^-?\d+(\.\d+)?(e[+-]?\d+)?$/i.test(text)) fail(line, "a wrong value")
  return Number(text)
}

export const parse = (text: string): ReadonlyArray<Sample> => {
  if (text !== "" && !text.endsWith("\n")) fail(text, "the last line does not end")
  const samples: Array<Sample> = []
  const families = new Set<string>()
  const seen = new Set<string>()
  let helped: string | undefined
  let current: { readonly name: string; readonly type: string } | undefined
  for (const line of text.split("\n").slice(0, -1)) {
    const help = /^# HELP ([a-zA-Z_:][\w:]*) (?:[^\\]|\\\\|\\n)*$/.exec(line)
    if (help !== null) {
      helped = help[1]
      continue
    }
    const type = /^# TYPE ([a-zA-Z_:][\w:]*) (counter|gauge|histogram|summary)$/.exec(line)
    if (type !== null) {
      const [, name = "", kind = ""] = type
      if (families.has(name)) fail(line, "a family twice")
      if (helped !== undefined && helped !== name) fail(line, "HELP of another family")
      helped = undefined
      families.add(name)
      current = { name, type: kind }
      continue
    }
    const sample = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/s.exec(line)
    if (sample === null || current === undefined) return fail(line, "not a sample")
    const [, name = "", inner = "", value = ""] = sample
    const { name: family, type: kind } = current
    const suffix = name.slice(family.length)
    if (!name.startsWith(family) || suffixes[kind]?.includes(suffix) !== true) fail(line, "of another family")
    const labels = labelsIn(line, inner)
    const key = `${name}${JSON.stringify([...labels].toSorted())}`
    if (seen.has(key)) fail(line, "a series twice")
    seen.add(key)
    if (suffix === "_bucket" && !labels.has("le")) fail(line, "a bucket without le")
    const read = number(line, value)
    if (kind === "counter" && read < 0) fail(line, "a negative counter")
    samples.push({ name, labels, value: read })
  }
  return samples
}
