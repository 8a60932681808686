"""What judges write in Spanish and French: read as it is meant, and doubt is never success."""

from __future__ import annotations

import time
import unicodedata

import pytest

from flower_core.documents import Verdict

# fmt: off
ACHIEVED = [
    "logrado", "Logrado.", "**LOGRADO**", "✅ logrado", "lograda", "alcanzado", "cumplido", "conseguido",
    "El objetivo se ha logrado", "El objetivo ha sido logrado.", "Se ha logrado el objetivo", "Objetivo cumplido",
    "Objetivo alcanzado: se superan las 5 comprobaciones", "Los 3 criterios se han cumplido",
    "Todos los criterios están cumplidos", "Todas las comprobaciones superadas; objetivo logrado", "logrado (5/5)",
    "logrado: 5 de 5", "100 % logrado", "El objetivo está totalmente cumplido", "Sí, logrado", "Por tanto, logrado",
    "estado: logrado", "logrado: sí", "Logrado. He visto la evidencia de cada punto",
    "logrado, sin fallos", "logrado; ninguna comprobación falló", "superado", "Superada", "aprobado",
    "Superadas todas", "todo superado", "El objetivo queda logrado", "la meta se alcanzó", "se logró",
    "El objetivo se cumplió", "logrado en su totalidad", "El objetivo se ha cumplido por completo", "«logrado»",
    "Objetivo conseguido, y no falta nada", "atteint", "Atteint.", "**ATTEINT**", "✅ atteint", "atteinte", "accompli",
    "L'objectif est atteint", "L’objectif est atteint.", "L’objectif a été atteint", "Objectif atteint",
    "Objectif atteint : les 5 contrôles sont satisfaits", "Tous les critères sont atteints", "atteint (5/5)",
    "atteint : 5 sur 5", "100 % atteint", "100\u202f% atteint", "L'objectif est pleinement atteint", "Oui, atteint",
    "Donc atteint", "état : atteint", "atteint : oui",
    "Atteint. J'ai vu la preuve de chaque point", "atteint, sans échec", "atteint ; aucun contrôle n'a échoué",
    "réussi", "validé", "« atteint »", "«\u00a0atteint\u00a0»", "L'objectif est entièrement atteint",
    "Objectif rempli", "Tous les contrôles sont satisfaits : atteint", "L'objectif est donc atteint",
    "Nous concluons : atteint", "atteint en totalité", "tout est satisfait", "satisfait",
]
# fmt: on
# fmt: off
NOT_YET = [
    "todavía no", "Todavía no.", "TODAVÍA NO", "todavi\u0301a no", "aún no", "Aún no logrado", "au\u0301n no",
    "no logrado", "No lograda", "**no** logrado", "no se ha logrado", "No se ha logrado el objetivo",
    "El objetivo no se ha logrado", "El objetivo no está logrado", "no está cumplido",
    "el objetivo no ha sido alcanzado", "objetivo no cumplido", "no conseguido", "todavía no se ha cumplido",
    "nada logrado", "nunca logrado", "ninguno logrado", "casi logrado", "parcialmente logrado",
    "logrado parcialmente", "logrado solo en parte", "logrado en parte", "lejos de estar logrado", "sin lograr",
    "incumplido", "no superado", "No superada", "no aprobado", "no se superó", "fallido", "logrado: no",
    "¿logrado? no", "no logrado: falta la prueba 2", "no, en absoluto logrado", "ni logrado ni cerca",
    "tampoco logrado", "incompleto", "inacabado", "no terminado", "no completado", "falta por lograr", "no todavía",
    "apenas logrado", "logrado = falso", "todavía sin lograr", "no alcanzado, aunque la 1 está lograda",
    "no se logró", "el objetivo no se cumplió", "no se alcanzó", "no se cumple", "no cumple", "pas encore",
    "Pas encore.", "PAS ENCORE", "pas encore atteint", "pas atteint", "non atteint", "Non atteinte", "non-atteint",
    "**non** atteint", "L'objectif n'est pas atteint", "L’objectif n’est pas atteint",
    "l'objectif n'a pas été atteint", "l'objectif n’est pas encore atteint", "objectif non atteint",
    "n'est pas accompli", "jamais atteint", "rien n'est atteint", "presque atteint", "partiellement atteint",
    "atteint partiellement", "atteint en partie", "atteint seulement en partie", "loin d'être atteint", "inachevé",
    "non réussi", "non satisfait", "pas satisfait", "pas validé", "échoué", "échec", "atteint : non", "atteint ? non",
    "non atteint : il manque le contrôle 2", "à peine atteint", "aucunement atteint", "nullement atteint",
    "guère atteint", "incomplet", "pas terminé", "non terminé", "pas complet", "reste à atteindre",
    "l'objectif n'est atteint qu'en partie", "atteint = faux", "non accompli", "non", "ni atteint ni près de l'être",
    "l'objectif n'est toujours pas atteint", "pas tout à fait atteint", "pas entièrement atteint", "atteint ?",
    "atteint\u00a0?", "¿logrado?",
]
# fmt: on
# fmt: off
UNREACHABLE = [
    "inalcanzable", "Inalcanzable: no hay GPU", "INALCANZABLE", "imposible", "imposible de lograr",
    "no se puede lograr", "no puede lograrse", "no se puede alcanzar", "no puede alcanzarse", "no es alcanzable",
    "no alcanzable", "irrealizable", "no es posible lograrlo", "no se podrá lograr",
    "no es posible alcanzar el objetivo", "inviable", "no se puede cumplir", "no puede cumplirse",
    "no se puede conseguir", "imposible de alcanzar", "no se puede verificar aquí", "no puede verificarse aquí",
    "no es posible verificarlo", "no se pudo comprobar", "imposible de verificar", "inverificable",
    "la 3 no se puede comprobar en este entorno", "no he podido verificar la 3", "no es verificable aquí",
    "no pude comprobar la 3", "inatteignable", "Inatteignable : pas de GPU", "INATTEIGNABLE", "impossible",
    "impossible à atteindre", "ne peut pas être atteint", "ne peut être atteint",
    "l'objectif ne peut pas être atteint", "ne pourra pas être atteint", "ne saurait être atteint", "hors d'atteinte",
    "hors d’atteinte", "irréalisable", "infaisable", "n'est pas atteignable", "non atteignable", "pas réalisable",
    "non réalisable", "impossible à vérifier ici", "impossible de vérifier ici", "ne peut pas être vérifié",
    "ne peut être vérifié ici", "invérifiable", "non vérifiable ici", "n'est pas vérifiable ici",
    "le contrôle 3 ne peut pas être contrôlé dans cet environnement", "je n'ai pas pu vérifier le contrôle 3",
    "on ne peut pas vérifier le 3", "pas vérifiable ici", "je ne peux pas vérifier",
]
# fmt: on
# fmt: off
UNCLEAR = [
    "quizás logrado", "tal vez logrado", "probablemente logrado", "parece logrado", "debería estar logrado",
    "podría darse por logrado", "puede que logrado", "logrado salvo la 3", "logrado, pero falla la 3",
    "logrado excepto la comprobación 2", "si se corrige la 2, logrado", "cuando se corrija la 2 estará logrado",
    "logrado 3 de 5", "logrado 3/5", "logrado al 80 %", "80 % logrado", "supuestamente logrado",
    "aparentemente logrado", "el trabajador dice que está logrado", "logrado según él", "prácticamente logrado",
    "básicamente logrado", "dudo que esté logrado", "no sé si está logrado", "habrá que ver si se ha logrado",
    "logrado a falta de la prueba", "logrado pendiente de revisión", "logrado, falta la 3", "logrado; queda la 3",
    "logrado sin ejecutar las pruebas", "demasiado pronto para darlo por logrado", "sí y no", "depende",
    "logrado con reservas", "será logrado pronto", "espero que logrado", "me niego a darlo por logrado",
    "en gran parte logrado", "se dará por logrado", "logrado, no probado", "la comprobación 1 va bien", "1 fallo",
    "logrado aunque la 3 falla", "peut-être atteint", "probablement atteint", "semble atteint",
    "devrait être atteint", "pourrait être atteint", "sera atteint", "atteint sauf le 3", "atteint, mais le 3 échoue",
    "atteint à l'exception du 3", "atteint hormis le 3", "si l'on corrige le 2, atteint",
    "quand le 2 sera corrigé, atteint", "atteint 3 sur 5", "atteint 3/5", "atteint à 80 %", "80 % atteint",
    "prétendument atteint", "apparemment atteint", "l'exécutant dit que c'est atteint", "atteint d'après lui",
    "pratiquement atteint", "quasiment atteint", "je doute que ce soit atteint", "je ne sais pas si c'est atteint",
    "reste à voir si c'est atteint", "atteint sous réserve du test", "atteint, en attente de revue",
    "atteint, il manque le 3", "atteint, reste le 3", "atteint sans exécuter les tests", "trop tôt pour dire atteint",
    "oui et non", "cela dépend", "atteint avec des réserves", "j'espère atteint", "je refuse de dire atteint",
    "en grande partie atteint", "atteint dans l'esprit", "le contrôle 1 va bien", "1 échec",
    "atteint bien que le 3 échoue", "atteint quoique le 3 échoue", "à condition de corriger le 2, atteint",
    "il faut que ce soit atteint", "logrado; la 3 falla", "logrado. Falla la 3", "logrado, por confirmar",
    "cuando se arregle la 2, logrado", "atteint; le 3 échoue", "atteint, à vérifier",
    "une fois le 2 corrigé, atteint", "logrado, sin probar", "atteint, jamais testé",
]
# fmt: on
CASES = [
    (state, words)
    for state, group in (("achieved", ACHIEVED), ("not_yet", NOT_YET), ("unreachable", UNREACHABLE), ("", UNCLEAR))
    for words in group
]
FORMS = (
    "{}",
    "## Conclusión\n{}\n\n## Motivo\nr\n\n## No superadas\n",
    "**Conclusion\u00a0:** {}\n\n**Raison\u00a0:** r",
    "1. Veredicto: {}\n2. Por qué: r",
)


@pytest.mark.parametrize(("state", "words"), CASES)
def test_a_conclusion_is_read_as_it_is_meant_however_it_is_typed(state: str, words: str) -> None:
    typed = {words, unicodedata.normalize("NFD", words), words.replace("'", "’"), f"{words}\n"}
    for text in typed:
        for form in FORMS:
            assert Verdict.parse(form.format(text)).state == state, form.format(text)


@pytest.mark.parametrize("words", ACHIEVED)
@pytest.mark.parametrize(
    "other", ["todavía no", "no logrado", "inalcanzable", "pas encore", "non atteint", "impossible"]
)
def test_success_beside_another_state_is_no_success(words: str, other: str) -> None:
    for text in (f"{words}\n{other}", f"{other}\n{words}", f"{words}, {other}", f"{other} ; {words}"):
        assert not Verdict.parse(text).ok


@pytest.mark.parametrize(
    "more",
    [
        "no queda nada", "no falta nada", "he ejecutado las pruebas y pasan todas", "todo se ha verificado",
        "ninguna prueba falló",
        "il ne manque rien", "il ne reste rien", "j'ai exécuté les tests, tous passent", "tout a été vérifié",
        "aucun test n'a échoué",
    ],
)  # fmt: skip
def test_what_says_that_nothing_is_missing_does_not_make_success_doubtful(more: str) -> None:
    for word in ("logrado", "atteint"):
        for form in ("{}: {}", "{} : {}", "{}, {}", "{}.\n\n{}"):
            assert Verdict.parse(form.format(word, more)).ok, form.format(word, more)


@pytest.mark.parametrize(
    "nothing",
    [
        "ninguna", "- Ninguna.", "Ninguno", "Nada", "todas superadas", "No aplica", "Ninguna: se superaron todas",
        "aucun", "- Aucun.", "Aucune", "Néant", "tous satisfaits", "Aucun\u00a0: tous sont satisfaits", "sans objet",
    ],
)  # fmt: skip
def test_a_list_that_says_nothing_failed_is_empty(nothing: str) -> None:
    for form in ("## Conclusión\nlogrado\n## No superadas\n{}", "## Conclusion\natteint\n## Non satisfaits\n{}"):
        verdict = Verdict.parse(form.format(nothing))
        assert (verdict.ok, verdict.failed) == (True, [])


@pytest.mark.parametrize("text", ["La respuesta es 1", "Resultado: 1", "La réponse est 1.", "Résultat\u00a0: 1"])
def test_a_lone_number_behind_a_word_that_announces_it_is_the_conclusion(text: str) -> None:
    assert Verdict.parse(text).state == "achieved"
    assert Verdict.parse(text.replace("1", "0")).state == "not_yet"


@pytest.mark.parametrize("unit", ["sin a, ", "no se ", "quand a ", "n'ai "])
def test_a_conclusion_as_long_as_a_reply_can_be_is_read_in_no_long_time(unit: str) -> None:
    Verdict.parse("logrado")  # compiles the words, once
    began = time.process_time()
    Verdict.parse(f"## Conclusión\nlogrado. {unit * (90_000 // len(unit))}")
    assert time.process_time() - began < 2.5
