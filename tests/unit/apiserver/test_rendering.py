"""The media types of answers that clients accept."""

from __future__ import annotations

import pytest

from hypercobalt.apiserver.errors import StatusError
from hypercobalt.apiserver.rendering import accepted
from hypercobalt.apiserver.requests.request import Request, User

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def accepting(header: str) -> Request:
    return Request("GET", "/", {}, {"accept": header}, User("u"))


@pytest.mark.parametrize(
    ("header", "shown_as", "media"),
    [
        ("", "", "application/json"),
        ("*/*", "", "application/json"),
        ("application/json", "", "application/json"),
        ("application/yaml", "", "application/yaml"),
        (TABLE, "Table", "application/json"),
        (f"{TABLE},application/json", "Table", "application/json"),
        ("application/json;as=Dance;v=v1;g=meta.k8s.io,application/json", "", "application/json"),
        ("application/vnd.kubernetes.protobuf,application/json", "", "application/json"),
        ("text/html, application/json;q=0.5", "", "application/json"),
    ],
)
def test_the_first_form_that_can_be_given_is(header: str, shown_as: str, media: str) -> None:
    form = accepted(accepting(header))
    assert (form.shown_as, form.media) == (shown_as, media)


@pytest.mark.parametrize("header", ["text/html", "application/vnd.kubernetes.protobuf", ";;,", ","])
def test_forms_that_cannot_be_given_are_refused(header: str) -> None:
    with pytest.raises(StatusError) as refused:
        accepted(accepting(header))
    assert refused.value.code == 406
