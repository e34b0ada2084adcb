/**
 * Rules on Bedrock messages in the languages of AWS's consoles and documentation. If an exception name is present,
 * it decides: these names are English everywhere.
 */
import * as Rule from "./Rule.ts"
import { auth, modelNotFound, rateLimit, serverError } from "./reasons.ts"

const said = (
  id: string,
  why: string,
  phrases: ReadonlyArray<string>,
  reason: Rule.Common["reason"]
): Rule.Rule => Rule.text({ id: `translated/${id}`, why, phrases, reason })

export const translated: ReadonlyArray<Rule.Rule> = [
  said(
    "model",
    "The use case form of the model was not submitted, or the account may not use the model.",
    [
      "(detalles del caso de uso|detalhes do caso de uso|dettagli sul caso d'uso)",
      "cas d'utilisation du modèle",
      "modellanwendungsfall*",
      "ユースケース…(送信|提出)",
      "(用例|使用案例)…(提交|详细信息)"
    ],
    modelNotFound
  ),
  said(
    "auth",
    "The permission is missing, or the key is unknown.",
    [
      "(permisos|permissões) suficientes",
      "autorisations suffisantes",
      "autorizzazioni sufficienti",
      "(ausreichende|ausreichenden|erforderlichen) berechtigungen",
      "十分…権限",
      "アクセスキー…存在しません",
      "(足够的|所需的|没有足够)权限"
    ],
    auth
  ),
  said(
    "rate",
    "Too many requests for the account.",
    [
      "demasiadas (solicitudes|peticiones)",
      "(muitas|demasiadas) (solicitações|requisições)",
      "trop de (requêtes|demandes)",
      "troppe richieste",
      "zu viele (anfragen|anforderungen)",
      "リクエスト…超"
    ],
    rateLimit
  ),
  said(
    "server",
    "The service failed.",
    [
      "error (interno |)del servidor",
      "(erreur interne|erreur) du serveur",
      "erro (interno |)(do|no) servidor",
      "errore (interno |)del server",
      "(serverfehler|serverfehlers)",
      "サーバー…(内部|障害)",
      "(内部|サーバー)エラー"
    ],
    serverError
  )
]
