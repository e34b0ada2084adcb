/**
 * Errors that come with a status of success: in place of a stream (`InPlaceOfStream`), or as one of its events
 * (`StreamEnd`).
 */
import { AnswerFacts } from "@outlast/agent/failure"

/** The error that is thrown for a response, in the form that the classifier reads. */
export const make = (responseBody: string, { status: statusCode, headers }: Response): Error =>
  Object.assign(new Error(""), { statusCode, responseBody, responseHeaders: Object.fromEntries(headers) })

/** True for the text of a body that is an error object. */
export const isErrorBody = (text: string): boolean => {
  try {
    return AnswerFacts.isErrorPart(JSON.parse(text))
  } catch {
    return false
  }
}

/** True for a request that asks for a stream. */
export const asksForStream = (url: string, request: RequestInit | undefined): boolean =>
  url.includes("alt=sse") ||
  // The search for a plain text skips over a long prompt much faster than the pattern.
  (typeof request?.body === "string" &&
    request.body.includes('"stream"') &&
    /"stream" ?: ?true/.test(request.body))
