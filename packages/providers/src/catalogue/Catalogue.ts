/**
 * Public data of models: windows, output limits, prices, habits. As of {@link asOf}.
 *
 * Sizes are in tokens, prices in US dollars per million tokens. Where the price depends on the length of the
 * prompt, the entry has the price of short prompts. Where it depends on how long a cache is kept, the entry has the
 * price of the shortest time. A price that no page of the vendor states is left out: calls of that model have
 * no cost. `source` is the vendor's page.
 *
 * The catalogue is incomplete and ages. `extend` adds and replaces entries, and every target takes `info`.
 */
import { ModelInfo } from "@outlast/agent"
import { ContextWindows } from "@outlast/agent/compaction"
import { Options as Check } from "@outlast/resilience"
import type { Layer } from "effect"
import { names as encodingNames } from "../counting/Encoding.ts"
import { anthropic } from "./anthropic.ts"
import type { CatalogueEntry, Counting } from "./CatalogueEntry.ts"
import { google } from "./google.ts"
import { openai } from "./openai.ts"
import { others } from "./others.ts"

/** The day on which the entries were collected. */
export const asOf = "2026-11-21"

export type Capabilities = ModelInfo.Capabilities

export type { CatalogueEntry, Counting } from "./CatalogueEntry.ts"

export type Catalogue = ReadonlyArray<CatalogueEntry>

const { is } = Check

const isEntries = is.list(
  is.object<CatalogueEntry>({
    ...ModelInfo.checks,
    provider: is.required(is.text),
    model: is.required(is.text),
    capabilities: is.required(ModelInfo.capabilities),
    counting: is.object<Counting>({
      encoding: is.oneOf(...encodingNames),
      image: is.having("an ImageRule", "by"),
      page: is.integer({ min: 0 })
    }),
    source: is.required(is.text)
  }),
  "a list of entries"
)

/** The check of an option that is a {@link Catalogue}. */
export const isCatalogue: Check.Check = (module, field, value) => {
  if (value !== entries) isEntries(module, field, value)
}

/** The built-in entries. */
export const entries: Catalogue = [...anthropic, ...openai, ...google, ...others]

/** Adds entries to the catalogue. A new entry replaces the existing one of the same model. */
export const extend = (more: Catalogue, catalogue: Catalogue = entries): Catalogue => {
  isCatalogue("Catalogue.extend", "more", more)
  isCatalogue("Catalogue.extend", "catalogue", catalogue)
  const replaced = new Set(more.map(nameOf))
  return [...more, ...catalogue.filter((entry) => !replaced.has(nameOf(entry)))]
}

/**
 * The entry of a model: by its exact name, else by the longest entry name that the model's name begins with, if the
 * rest is a date or a version (`-20250929`, `-latest`, `-preview-05-20`). Paths and vendor prefixes
 * (`models/…`, `us.anthropic.…`) are ignored.
 */
export const find = (model: string, catalogue: Catalogue = entries): CatalogueEntry | undefined => {
  const name = model.toLowerCase().replace(/^(?:[a-z][a-z-]*[./])+/, "")
  const matching = catalogue.filter(
    (entry) => name.startsWith(entry.model) && suffix.test(name.slice(entry.model.length))
  )
  return matching.reduce<CatalogueEntry | undefined>(
    (best, entry) => (best === undefined || entry.model.length > best.model.length ? entry : best),
    undefined
  )
}

// Nothing, `-0` (Anthropic's alias of a first version), or a date, number, alias or preview, dated or not. Further
// words name another model: `gpt-4-1106-preview`, `gemini-2.5-flash-preview-tts`.
const suffix = /^(?:|-0|[-@](?:\d{3,}|latest|preview|exp)(?:-\d+)*(?:-v\d+)?(?::\d+)?)$/

/** The entry of a model as a `ModelInfo`. Prices apply at the vendor only: at other providers they are left out. */
export const infoOf = (
  provider: string,
  model: string,
  catalogue: Catalogue = entries
): ModelInfo.ModelInfo => {
  const entry = find(model, catalogue)
  if (entry === undefined) return {}
  return entry.provider === provider ? entry : { ...entry, price: undefined }
}

/**
 * The windows of the catalogue as `ContextWindows`. Windows in `windows`, by the exact name of a model and in tokens,
 * take precedence.
 *
 * **Example** (A self-hosted model)
 *
 * ```ts
 * program.pipe(Effect.provide(Catalogue.layerWindows({ windows: { "house-model": 32_768 } })))
 * ```
 */
export const layerWindows = (
  options: {
    readonly windows?: Readonly<Record<string, number>> | undefined
    readonly catalogue?: Catalogue | undefined
  } = {}
): Layer.Layer<never> => {
  Check.fields("Catalogue.layerWindows", options, {
    windows: is.record(is.integer({ min: 1 })),
    catalogue: isCatalogue
  })
  const own = new Map(Object.entries(options.windows ?? {}))
  return ContextWindows.layer((model) => own.get(model) ?? find(model, options.catalogue)?.contextWindow)
}

const nameOf = (entry: CatalogueEntry): string => `${entry.provider}/${entry.model}`
