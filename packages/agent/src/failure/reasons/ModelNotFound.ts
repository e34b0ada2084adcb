/**
 * The model does not exist at this endpoint, or this account may not use it.
 */
import { Schema } from "effect"
import { AiError } from "effect/ai"
import type { ReasonDefinition } from "./ReasonDefinition.ts"
import { always, id, lacksVersion, never } from "./ReasonDefinition.ts"

/** Id of the rule for a client that could not be created. `matched` is the error. */
export const notCreated = "client/create"

/** Id of the rule for a status that no word of the error explains. A wrong path of the base URL gives one, too. */
const bareStatus = "status/model"

/** The model does not exist at this endpoint, or this account may not use it. */
export class ModelNotFound extends Schema.TaggedClass<ModelNotFound>(id("ModelNotFound"))(
  "ModelNotFound",
  {}
) {}

export const modelNotFound: ReasonDefinition<ModelNotFound> = {
  label: "model_not_found",
  samples: [new ModelNotFound()],
  happened: ({ rule, status, matched }) =>
    rule === notCreated
      ? `its client could not be made${matched}`
      : `the model is not available here${status}`,
  advice: ({ rule, endpoint, key, model }) => {
    if (rule === notCreated) return "Check the function create of the target."
    const others = `${model} and whether the account of ${key} may use it`
    if (rule !== bareStatus) return `Check ${others}.`
    return lacksVersion(endpoint)
      ? `Check the base URL ${endpoint}, whose path may lack /v1. If it is right, check ${others}.`
      : `Check ${others}. If both are right, check the path of the base URL.`
  },
  notice: () => "is not available",
  nearest: ({ description }) =>
    new AiError.InvalidRequestError({ parameter: "model", constraint: "not_found", description }),
  isTransient: never,
  needsPerson: true,
  isItsFault: always,
  wait: "field",
  remedies: ["target"]
}
