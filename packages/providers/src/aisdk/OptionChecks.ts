/**
 * Checks the options of this package's constructors when they are called. Internal.
 *
 * `Endpoint` and `Target` check the options that may hold a secret: base URLs, keys and headers.
 */
import { ModelInfo } from "@outlast/agent"
import { Options } from "@outlast/resilience"
import type { CallSettings } from "./Spec.ts"
import type { CommonOptions } from "./Target.ts"
import type { VendorOptions } from "./Vendor.ts"

const { is } = Options

const settings: Options.Checks<CallSettings> = {
  temperature: is.number({ min: 0 }),
  topP: is.share,
  topK: is.integer(),
  presencePenalty: is.number(),
  frequencyPenalty: is.number(),
  stopSequences: is.list(is.text),
  seed: is.integer(),
  reasoning: is.oneOf("provider-default", "none", "minimal", "low", "medium", "high", "xhigh", "max")
}

/** Checks of the options that all constructors share. */
export const common: Options.Checks<CommonOptions> = {
  // `Target` checks keys and headers.
  keys: is.anything,
  headers: is.anything,
  // Also accepts an entry of the catalogue.
  info: is.object<
    ModelInfo.ModelInfo & { provider: string; model: string; counting: object; source: string }
  >({
    ...ModelInfo.checks,
    provider: is.string,
    model: is.string,
    counting: is.record(),
    source: is.string
  }),
  settings: is.object(settings)
}

/** Checks of the options that the vendor modules share. */
export const vendor: Options.Checks<VendorOptions<object>> = {
  ...common,
  // `Endpoint.base` checks the URL.
  baseUrl: is.anything,
  providerOptions: is.record(),
  // `Vendor.fetched` checks the function.
  fetch: is.anything
}

/** The check of the name of a model. */
export const model: Options.Check = (module, field, value) =>
  Options.check(typeof value === "string" && value.trim() !== "", module, field, value, "the name of a model")

/**
 * {@link Options.fields}, with an `example` for options that are not an object. A string in their place is not quoted:
 * it may be a key.
 */
export const options = <O extends object>(
  module: string,
  given: O,
  checks: Options.Checks<O>,
  example: string
): void => {
  if (typeof given === "string" || Array.isArray(given)) {
    const got = typeof given === "string" ? "a text" : "a list"
    const allowed = `an object, for example ${example}`
    const message = `${module}: options must be ${allowed}, got ${got}`
    throw new Options.InvalidOption(module, "options", undefined, allowed, message)
  }
  Options.fields(module, given, checks)
}

/** Checks the arguments of a vendor's constructor. */
export const forVendor = (module: string, modelId: string, given: VendorOptions<object>): void => {
  model(module, "model", modelId)
  options(module, given, vendor, `{ keys: ["NAME_OF_A_VARIABLE"] }`)
}
